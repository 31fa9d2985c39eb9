import { setImmediate as turn } from 'node:timers/promises';
import fc from 'fast-check';
import { checkInput, type FuzzTarget } from './fuzz-target.ts';
import type { Seed } from './kept-seeds.ts';
import { describeEdit, type FuzzInput, mutatedInputs } from './mutate-seeds.ts';

/** `path` is that of an earlier failure: if it is given, only that one is tried again. */
export type SearchOptions = { seconds: number; seed: number; path?: string | undefined };

/** How many inputs were tried, their outcomes, and the input that broke the promise. */
export type SearchReport = { tried: number; outcomes: Record<string, number>; failure?: SearchFailure | undefined };

/** `path` is missing if the search itself could not continue. `origin`: the seed and its edits, one per line. */
export type SearchFailure = { message: string; input: Uint8Array; path?: string | undefined; origin: string };

type Search = SearchOptions & { target: FuzzTarget; seeds: readonly Seed[]; onInput?: (input: Uint8Array) => void };

const shrinkMs = 20_000;

/** Tries inputs until the time is over or one of them breaks the promise. That one is then shrunk as far as possible. */
export async function runSearch({ target, seeds, onInput, seconds, seed, path }: Search): Promise<SearchReport> {
  let tried = 0;
  const outcomes: Record<string, number> = {};
  const property = fc.asyncProperty(mutatedInputs(target, seeds), async ({ bytes }) => {
    onInput?.(bytes);
    tried++;
    const outcome = await checkInput(target, bytes);
    // Uncaught errors are raised now, and not while another input is tried.
    await turn();
    outcomes[outcome] = (outcomes[outcome] ?? 0) + 1;
  });
  const search = (options: fc.Parameters<[FuzzInput]>) => fc.check(property, { seed, ...options });
  const again = (path: string) => search({ path, numRuns: 1, interruptAfterTimeLimit: shrinkMs });
  const found =
    path === undefined
      ? await search({ numRuns: Number.MAX_SAFE_INTEGER, interruptAfterTimeLimit: seconds * 1_000 })
      : await again(path);
  if (!found.failed) return { tried, outcomes };
  // The time of the search may have ended before the input was shrunk.
  const shrunk =
    path === undefined && found.counterexamplePath !== null ? await again(found.counterexamplePath) : found;
  return { tried, outcomes, failure: failureOf(shrunk.failed ? shrunk : found) };
}

function failureOf({ counterexample, counterexamplePath, errorInstance }: fc.RunDetails<[FuzzInput]>): SearchFailure {
  const [input] = counterexample ?? [];
  if (input === undefined) throw errorInstance ?? new Error('a search failed without an input');
  return {
    message: errorInstance instanceof Error ? (errorInstance.stack ?? errorInstance.message) : String(errorInstance),
    input: input.bytes,
    path: counterexamplePath ?? undefined,
    origin: [input.from, ...input.edits.map(describeEdit)].join('\n'),
  };
}
