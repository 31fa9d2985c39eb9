import { setTimeout as sleep } from 'node:timers/promises';
import { type BatchClient, linesOf, openBatchClient } from '../support/batch-client.ts';
import { unlimitedKey } from '../support/load.ts';
import { median } from './measure.ts';
import { type Capacity, models, startReplicas } from './replicas.ts';

const rounds = 3;

/** `besideLines`: how many lines of the large batch were done from the submission of the small one to its end. */
export type Fairness = {
  aloneMs: number;
  besideMs: number;
  ratio: number;
  besideLines: number;
  largePerSecond: number;
};

type Sizes = Capacity & { large: number; small: number };

/**
 * Measures how long a small batch takes alone, and while a large one runs, of another account or of its own. Each has another model in
 * the same pool. Medians of three.
 */
export async function measureFairness(
  { large, small, ...capacity }: Sizes,
  of: 'two accounts' | 'one account',
): Promise<Fairness> {
  await using stack = await startReplicas({ ...capacity, workers: 2 });
  const second = await openBatchClient(stack, 'small', await unlimitedKey(stack, 'small'));
  const first =
    of === 'one account' ? second : await openBatchClient(stack, 'large', await unlimitedKey(stack, 'large'));
  const submit = () => second.create(linesOf(small, { model: models[1] }));

  const alone: number[] = [];
  for (let round = 1; round <= rounds; round++) alone.push(await timeOf(second, submit));

  const { id } = await first.create(linesOf(large, { model: models[0] }));
  const done = async () => (await first.client.batches.retrieve(id)).request_counts?.completed ?? 0;
  await first.until(id, ({ request_counts }) => (request_counts?.completed ?? 0) > large / 20, 120_000);
  const together: { ms: number; lines: number }[] = [];
  for (let round = 1; round <= rounds; round++) {
    const before = await done();
    const ms = await timeOf(second, submit);
    const after = await done();
    if (after === large) throw new Error(`the large batch ended before the small one: use more than ${large} lines`);
    together.push({ ms, lines: after - before });
    console.error(`fairness: ${of}: ${ms.toFixed(0)} ms with the large batch, which is at ${after} of ${large}`);
  }
  const [aloneMs, besideMs] = [median(alone), median(together.map(({ ms }) => ms))];
  const lines = together.reduce((sum, each) => sum + each.lines, 0);
  return {
    aloneMs,
    besideMs,
    ratio: besideMs / aloneMs,
    besideLines: median(together.map((each) => each.lines)),
    largePerSecond: (1_000 * lines) / together.reduce((sum, { ms }) => sum + ms, 0),
  };
}

/** From submission to the end, in milliseconds, as the owner sees it. */
async function timeOf({ client }: BatchClient, submit: () => Promise<{ id: string }>): Promise<number> {
  const startedAt = performance.now();
  const { id } = await submit();
  while (true) {
    const { status, request_counts } = await client.batches.retrieve(id);
    if (status === 'completed' && request_counts?.failed === 0) return performance.now() - startedAt;
    if (!['validating', 'in_progress', 'finalizing'].includes(status)) throw new Error(`a batch is ${status}`);
    await sleep(25);
  }
}
