/** Longer ones are for a busy machine, where a call can arrive after its end. */
const aheadSeconds = [1, 2, 4, 8, 16, 32];

/** What `make` makes with an end, in seconds since 1970, that comes as soon as can be. It fails if its end is not in the future. */
export async function soonEnded<Made>(make: (end: number) => Promise<Made>): Promise<{ made: Made; end: number }> {
  let failure: unknown;
  for (const ahead of aheadSeconds) {
    const end = Math.ceil(Date.now() / 1_000) + ahead;
    try {
      return { made: await make(end), end };
    } catch (error) {
      failure = error;
    }
  }
  throw failure;
}
