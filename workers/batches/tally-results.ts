import type { Batch } from '../../shared/batches/batch.ts';
import { type BatchProgress, noProgress, withOutcomes, withSample } from '../../shared/batches/batch-progress.ts';
import type { ProgressStep } from '../../shared/batches/batch-states.ts';
import type { BatchStore } from '../../shared/store/records/batch-store.ts';

const [foundAtOnce, listedAtOnce] = [200, 1_000];

type Deps = { store: Pick<BatchStore, 'findBatch' | 'findOutcomes' | 'listOutcomes'>; batch: Batch };

/** `results` is how many results the batch has by now, and `position` the first line that may have none. */
type Count = { results: number; position: number; at: Date };

/**
 * Counts what the results of one running batch say, each once. It reads the results of the lines that have ended since it last counted, and
 * all results only if some of these are unknown: after the batch came from a worker that has died, or if a step was not stored.
 */
export function createResultTally({ store, batch }: Deps) {
  /** What the document of the batch has; undefined if that is unknown. */
  let known: BatchProgress | undefined = batch.progress ?? noProgress;
  let isChecked = false;
  let uncounted: number[] = [];
  /** Lines that were counted before their end was noticed. */
  const early = new Set<number>();

  async function countAll(position: number): Promise<BatchProgress> {
    let progress = noProgress;
    for (let after = 0; ; ) {
      const found = await store.listOutcomes(batch.id, { after, limit: listedAtOnce });
      progress = withOutcomes(progress, found);
      for (const { line } of found) if (line >= position) early.add(line);
      after = found.at(-1)?.line ?? after;
      if (found.length < listedAtOnce) return progress;
    }
  }

  /** Undefined if a result is missing. */
  async function countLines(base: BatchProgress, lines: readonly number[]): Promise<BatchProgress | undefined> {
    let progress = base;
    for (let from = 0; from < lines.length; from += foundAtOnce)
      progress = withOutcomes(progress, await store.findOutcomes(batch.id, lines.slice(from, from + foundAtOnce)));
    return progress.lines === base.lines + lines.length ? progress : undefined;
  }

  return {
    /** These lines have ended. To be called before the results are counted for the next step. */
    ended(lines: readonly number[]): void {
      uncounted.push(...lines.filter((line) => !early.delete(line)));
    },
    /** The next step. It is made again if it is not stored. */
    async step({ results, position, at }: Count): Promise<ProgressStep> {
      const [own, lines] = [known, uncounted];
      [known, uncounted] = [undefined, []];
      const base = own ?? (await store.findBatch(batch.id))?.progress ?? noProgress;
      // Before the first step, results of another worker may be in neither of the two.
      const isComplete = own !== undefined && (isChecked || own.lines + lines.length === results);
      const counted = isComplete ? await countLines(base, lines) : undefined;
      const next = counted ?? (await countAll(position));
      for (const line of lines) early.delete(line);
      isChecked = true;
      return { lines: base.lines, next: withSample({ ...next, samples: base.samples }, at) };
    },
    /** The step was stored. */
    stored(step: ProgressStep): void {
      known = step.next;
    },
  };
}

export type ResultTally = ReturnType<typeof createResultTally>;
