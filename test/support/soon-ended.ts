/**
 * What `make` makes with an end, in seconds since 1970, that comes soon. On a busy machine the end can come before the call, which then
 * fails: it is made again, with a later end.
 */
export async function soonEnded<Made>(make: (end: number) => Promise<Made>): Promise<{ made: Made; end: number }> {
  for (let aheadSeconds = 1; ; aheadSeconds *= 2) {
    const end = Math.ceil(Date.now() / 1_000) + aheadSeconds;
    try {
      return { made: await make(end), end };
    } catch (error) {
      if (Date.now() < end * 1_000) throw error;
    }
  }
}
