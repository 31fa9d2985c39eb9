/** What a process does to its store until it dies: at its nth call, before it or after it. Nothing that it does later has an effect. */
export type Death = { call: number; when: 'before' | 'after' };

export const died = new Error('the process has died');

/**
 * Returns the same object for a process that dies. `hasDied` says whether it did: a process that makes fewer calls lives. `inner` are
 * fields that are objects with calls of their own.
 */
export function dying<Parts extends Record<string, object>>(
  parts: Parts,
  { call, when }: Death,
): { parts: Parts; hasDied: () => boolean } {
  let calls = 0;
  const hasDied = () => calls >= call;

  function wrapped<Part extends object>(part: Part): Part {
    return new Proxy(part, {
      get(target, name) {
        const value: unknown = Reflect.get(target, name);
        if (typeof value !== 'function') return value;
        return async (...given: unknown[]) => {
          if (hasDied()) throw died;
          calls += 1;
          if (hasDied() && when === 'before') throw died;
          const result: unknown = await value.apply(target, given);
          if (hasDied()) throw died;
          return result;
        };
      },
    });
  }

  const all = Object.fromEntries(Object.entries(parts).map(([name, part]) => [name, wrapped(part)]));
  return { parts: all as Parts, hasDied }; // each part is the same, with other calls
}

/** Runs `prove` for each place at which a process can die, until it lives. Returns how many there were. */
export async function forEachDeath(prove: (death: Death) => Promise<'died' | 'lived'>): Promise<number> {
  for (let call = 1; ; call++) {
    for (const when of ['before', 'after'] as const) {
      if ((await prove({ call, when })) === 'lived') return call - 1;
    }
  }
}
