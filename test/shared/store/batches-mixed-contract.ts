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
  prove('the previous release changes and ends a batch with a filename, and both find it ended', endsBeside);
  prove(
    'errors that this release has counted are whole or gone if the previous release clears the batch',
    clearsCounts,
  );
}

const at = new Date('2026-12-05T12:00:00.000Z');
const usage = { promptTokens: 1, cachedTokens: 0, completionTokens: 1 };
const written = { type: 'written', completed: 1, failed: 0, usage, errorCounts: {} } as const satisfies BatchEvent;

function move({ batches }: Store, id: string, event: BatchEvent): Promise<void> {
  return batches.changeBatch(id, (found) => {
    const next = found && nextBatch(found, event, at);
    return { result: undefined, ...(next && { next }) };
  });
}

async function endsBeside(t: ExecutionContext, { store, previous }: Parameters<Proof>[1]): Promise<void> {
  const { id } = batchOf();
  await store.batches.insertBatch(batchOf({ id, state: 'in_progress', inputFilename: 'in.jsonl' }));
  await move(store, id, { type: 'ran' });
  await move(previous, id, written);
  for (const { batches } of [store, previous])
    t.like((await batches.listEndedBatches(9))[0], { id, state: 'completed' });
  await move(store, id, { type: 'cleared' });
  await store.batches.forgetEndedBatches([id]);
  t.deepEqual(await previous.batches.listEndedBatches(9), []);
  t.like(await previous.batches.findBatch(id), { state: 'completed', open: false });
}

async function clearsCounts(t: ExecutionContext, { store, previous }: Parameters<Proof>[1]): Promise<void> {
  const { id } = batchOf();
  await previous.batches.insertBatch(batchOf({ id, state: 'in_progress' }));
  await move(previous, id, { type: 'ran' });
  await move(store, id, { ...written, errorCounts: { batch_expired: 2 } });
  t.like(await store.batches.findBatch(id), { errorCounts: { batch_expired: 2 } });
  await move(previous, id, { type: 'cleared' });
  const found = await store.batches.findBatch(id);
  t.like(found, { state: 'completed', open: false });
  // A store of whole documents loses them, one of fields keeps them.
  t.deepEqual(found?.errorCounts ?? { batch_expired: 2 }, { batch_expired: 2 });
}
