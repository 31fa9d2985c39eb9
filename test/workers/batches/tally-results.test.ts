import test from 'ava';
import { type BatchProgress, type LineOutcome, noProgress } from '../../../shared/batches/batch-progress.ts';
import type { ProgressStep } from '../../../shared/batches/batch-states.ts';
import { createResultTally } from '../../../workers/batches/tally-results.ts';
import { batchOf } from '../../shared/store/batch-records.ts';

const at = new Date('2026-12-05T10:11:12Z');

/** A batch in a store, as far as a tally needs it. `read` counts the results that were read. */
function start(progress?: BatchProgress) {
  const batch = batchOf(progress && { progress });
  const results = new Map<number, LineOutcome>();
  const reads = { found: 0, listed: 0 };
  let stored = batch;
  const store = {
    findBatch: async () => stored,
    async findOutcomes(_: string, lines: readonly number[]) {
      reads.found += lines.length;
      return lines.flatMap((line) => results.get(line) ?? []);
    },
    async listOutcomes(_: string, { after, limit }: { after: number; limit: number }) {
      const found = [...results.values()].filter(({ line }) => line > after).toSorted((a, b) => a.line - b.line);
      reads.listed += Math.min(limit, found.length);
      return found.slice(0, limit);
    },
  };
  return {
    reads,
    newTally: () => createResultTally({ store, batch: stored }),
    progress: () => stored.progress ?? noProgress,
    /** The lines that have results from now on. */
    end: (...lines: number[]) => {
      for (const line of lines)
        results.set(line, {
          ...{ line, customId: 'x', model: 'm', failed: false, status: 200, error: null },
          ...{ promptTokens: 1, cachedTokens: 0, completionTokens: 1 },
        });
    },
    count: () => ({ results: results.size, position: 1, at }),
    /** Stores a step as the guarded update of the batch does. */
    store({ lines, next }: ProgressStep): boolean {
      if ((stored.progress?.lines ?? 0) !== lines) return false;
      stored = { ...stored, progress: next };
      return true;
    },
  };
}

const numbers = (count: number, from = 1) => Array.from({ length: count }, (_, index) => from + index);

test('each result is counted once, by the lines that have ended, and no other is read', async (t) => {
  const { reads, newTally, progress, end, count, store } = start();
  const tally = newTally();
  for (let round = 0; round < 5; round++) {
    const lines = numbers(300, 1 + 300 * round);
    end(...lines);
    tally.ended(lines);
    const step = await tally.step(count());
    t.true(store(step));
    tally.stored(step);
  }
  t.is(progress().lines, 1_500);
  t.deepEqual(progress().tokens, [{ model: 'm', promptTokens: 1_500, cachedTokens: 0, completionTokens: 1_500 }]);
  t.deepEqual(reads, { found: 1_500, listed: 0 });
});

test('a worker that takes a batch over counts what the one before it did not, and no line twice', async (t) => {
  const { newTally, progress, end, count, store } = start();
  const dead = newTally();
  end(1, 2, 3);
  dead.ended([1, 2, 3]);
  store(await dead.step(count()));
  end(4, 5); // and it dies
  const tally = newTally();
  end(6, 7);
  tally.ended([6]);
  const step = await tally.step(count());
  t.true(store(step));
  tally.stored(step);
  t.is(progress().lines, 7, 'also a line whose event is still on its way');
  end(8);
  tally.ended([7, 8]);
  const next = await tally.step(count());
  store(next);
  t.is(progress().lines, 8);
});

test('a step that was not stored, or may not have been, is made again', async (t) => {
  const { newTally, progress, end, count, store } = start();
  const [one, other] = [newTally(), newTally()];
  end(1, 2);
  one.ended([1]);
  other.ended([2]);
  const [first, second] = [await one.step(count()), await other.step(count())];
  t.true(store(first));
  t.false(store(second), 'of two workers one counts');
  one.stored(first);
  end(3);
  other.ended([3]);
  t.true(store(await other.step(count())));
  t.is(progress().lines, 3);
  t.false(store(await one.step(count())), 'it knows an earlier one');
  end(4);
  one.ended([4]);
  t.true(store(await one.step(count())), 'its answer is lost');
  end(5);
  one.ended([5]);
  t.true(store(await one.step(count())));
  t.is(progress().lines, 5);
});

test('a result that is missing is no reason to count less', async (t) => {
  const { newTally, progress, end, count, store } = start();
  const tally = newTally();
  end(1);
  tally.ended([1]);
  const step = await tally.step(count());
  store(step);
  tally.stored(step);
  end(2);
  tally.ended([2, 3]);
  store(await tally.step(count()));
  t.is(progress().lines, 2);
});
