import { createPrefixCache, type TokenSequence } from './prefix-cache.ts';

export interface EngineOptions {
  /**
   * The tokens that its prefix cache holds, and how many tokens of a prompt beyond those it computes per second before the first token of
   * the answer. Default: no tokens are cached, and prompts take no time.
   */
  prefixCache?: { readonly tokensMax: number; readonly uncachedTokensPerSecond: number };
  /** Further calls wait inside the server, first come, first served. Default: no limit. */
  slots?: number;
}

export type Engine = ReturnType<typeof createEngine>;

/** What makes calls wait in an engine: its slots, and prompts whose beginning is not cached. */
export function createEngine({ prefixCache, slots = Number.POSITIVE_INFINITY }: EngineOptions) {
  const cache = prefixCache && createPrefixCache(prefixCache);
  const waiting = new Set<() => void>();
  let running = 0;

  return {
    /** Resolves when the call has a slot, which it must leave. Rejects when its client leaves first. */
    enter(signal: AbortSignal): Promise<void> {
      return new Promise((resolve, reject) => {
        const begin = () => {
          waiting.delete(begin);
          signal.removeEventListener('abort', abort);
          running += 1;
          resolve();
        };
        const abort = () => {
          waiting.delete(begin);
          reject(signal.reason);
        };
        if (signal.aborted) return abort();
        if (running < slots) return begin();
        waiting.add(begin);
        signal.addEventListener('abort', abort, { once: true });
      });
    },
    leave(): void {
      running -= 1;
      const [next] = waiting;
      next?.();
    },
    /** What one call reads. Without a cache, nothing is cached and takes time. */
    openCall() {
      let sequences: readonly TokenSequence[] = [];
      return {
        /** Returns how many tokens of the prompts are cached. `read` is called only if there is a cache. */
        cachedTokensOf(read: () => readonly TokenSequence[]): number {
          if (cache === undefined) return 0;
          sequences = read();
          return sequences.reduce((sum, { prompt }) => sum + cache.read(prompt), 0);
        },
        /** How long the engine computes a prompt of which this many tokens are not cached. */
        computeMs: (uncachedTokens: number) =>
          prefixCache === undefined ? 0 : (1_000 * uncachedTokens) / prefixCache.uncachedTokensPerSecond,
        /** The call has been answered. */
        keep(): void {
          for (const sequence of sequences) cache?.keep(sequence);
        },
      };
    },
  };
}
