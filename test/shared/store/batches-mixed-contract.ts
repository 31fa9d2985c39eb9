import { join } from 'node:path';
import type { ExecutionContext } from 'ava';
import { type BatchEvent, nextBatch } from '../../../shared/batches/batch-states.ts';
import type { Store } from '../../../shared/store/store.ts';
import { openRelease } from '../../support/earlier-releases.ts';
import { batchOf } from './batch-records.ts';
import type { Contract } from './store-contract.ts';

type Proof = (t: ExecutionContext, stores: { store: Store; previous: Store }) => Promise<void>;

/** The guarantees for batches that this and the previous release change at the same time. */
export function testMixedBatchesContract({ test, createHome }: Contract): void {
  const prove = (title: string, proof: Proof) =>
    test(title, async (t) => {
      t.timeout(180_000);
      await using release = await openRelease('previous');
      const { openStore } = await import(join(release.root, 'shared/open-store.ts'));
      await using home = await createHome();
      await using store = await home.open();
      await using previous: Store = await openStore(home.url, { log: { warn() {} } });
      await proof(t, { store, previous });
    });
  prove('the previous release changes a batch that is marked as ended, and the mark stays', keepsMark);
  prove('a batch that the previous release ends has no mark, and this release still changes it', endsWithoutMark);
}

const at = new Date('2026-12-05T12:00:00.000Z');
const usage = { promptTokens: 1, cachedTokens: 0, completionTokens: 1 };
const written: BatchEvent = { type: 'written', completed: 1, failed: 0, usage, errorCounts: {} };

function move({ batches }: Store, id: string, event: BatchEvent): Promise<void> {
  return batches.changeBatch(id, (found) => {
    const next = found && nextBatch(found, event, at);
    return { result: undefined, ...(next && { next }) };
  });
}

async function keepsMark(t: ExecutionContext, { store, previous }: Parameters<Proof>[1]): Promise<void> {
  const { id } = batchOf({ state: 'in_progress' });
  await previous.batches.insertBatch(batchOf({ id, state: 'in_progress' }));
  await move(previous, id, { type: 'ran' });
  await move(store, id, written);
  t.like(await previous.batches.findBatch(id), { state: 'completed', open: true });
  await move(previous, id, { type: 'cleared' });
  const [ended, ...others] = await store.batches.listEndedBatches(9);
  t.like(ended, { id, state: 'completed', open: false });
  t.deepEqual(others, []);
  await store.batches.forgetEndedBatches([id]);
  t.deepEqual(await store.batches.listEndedBatches(9), []);
  t.deepEqual(await previous.batches.findBatch(id), await store.batches.findBatch(id));
}

async function endsWithoutMark(t: ExecutionContext, { store, previous }: Parameters<Proof>[1]): Promise<void> {
  const { id } = batchOf();
  await store.batches.insertBatch(batchOf({ id, state: 'in_progress' }));
  await move(store, id, { type: 'ran' });
  await move(previous, id, written);
  t.deepEqual(await store.batches.listEndedBatches(9), []);
  await move(store, id, { type: 'cleared' });
  t.deepEqual(await store.batches.listEndedBatches(9), [], 'it had ended before');
  t.like(await previous.batches.findBatch(id), { state: 'completed', open: false });
}
