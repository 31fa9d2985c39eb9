import { join } from 'node:path';
import type { ExecutionContext } from 'ava';
import { type BatchEvent, nextBatch } from '../../../shared/batches/batch-states.ts';
import type { Store } from '../../../shared/store/store.ts';
import { openRelease } from '../../support/earlier-releases.ts';
import { batchOf } from './batch-records.ts';
import type { Contract } from './store-contract.ts';

type Proof = (
  t: ExecutionContext,
  stores: { store: Store; previous: Store; keepsUnknownFields: boolean },
) => Promise<void>;

/**
 * The guarantees for batches that this and the previous release change at the same time. `keepsUnknownFields`: the previous release changes
 * the fields of a document that it knows, rather than the whole document.
 */
export function testMixedBatchesContract({
  test,
  createHome,
  keepsUnknownFields,
}: Contract & { keepsUnknownFields: boolean }): void {
  const prove = (title: string, proof: Proof) =>
    test(title, async (t) => {
      t.timeout(180_000);
      await using release = await openRelease('previous');
      const { openStore } = await import(join(release.root, 'shared/open-store.ts'));
      await using home = await createHome();
      await using store = await home.open();
      await using previous: Store = await openStore(home.url, { log: { warn() {} } });
      await proof(t, { store, previous, keepsUnknownFields });
    });
  prove('the previous release changes and ends a batch with a filename, and both find it ended', endsBeside);
  prove(
    `what this release has added to a batch is ${keepsUnknownFields ? 'kept' : 'gone'} if the previous release clears it`,
    clearsNewFields,
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

async function clearsNewFields(
  t: ExecutionContext,
  { store, previous, keepsUnknownFields }: Parameters<Proof>[1],
): Promise<void> {
  const { id } = batchOf();
  const added = { inputFilename: 'in.jsonl', errorCounts: { batch_expired: 2 } };
  await store.batches.insertBatch(batchOf({ id, state: 'in_progress', inputFilename: added.inputFilename }));
  await move(store, id, { type: 'ran' });
  await move(store, id, { ...written, errorCounts: added.errorCounts });
  t.like(await store.batches.findBatch(id), added);
  await move(previous, id, { type: 'cleared' });
  const found = await store.batches.findBatch(id);
  t.like(found, { state: 'completed', open: false });
  const { inputFilename, errorCounts } = found ?? {};
  t.deepEqual(
    { inputFilename, errorCounts },
    keepsUnknownFields ? added : { inputFilename: undefined, errorCounts: undefined },
  );
}
