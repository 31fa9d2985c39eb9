import type { ExecutionContext } from 'ava';
import { type Stack, startStack } from '../stack/stack.ts';
import { linesOf, openBatchClient } from '../support/batch-client.ts';
import { createFurtherKeyClient } from '../support/further-key-client.ts';
import { createKeyClient, type KeyClient } from '../support/key-client.ts';
import { nodesOf, openRedis } from '../support/open-redis.ts';

/** How the store of a stack is saved, while the service runs, and restored, while it does not. */
export type StoreCopy = { save(stack: Stack): Promise<void>; restore(stack: Stack): Promise<void> };

type Guarantee = { databaseUrl?: string; copy: (stack: Stack) => StoreCopy };

/** A service continues from a backup as it was then (ingress/documentation/runbooks/backup-and-restore.md). */
export async function provesRestore(t: ExecutionContext, { databaseUrl, copy }: Guarantee): Promise<void> {
  t.timeout(240_000);
  await using stack = await startStack({ ...(databaseUrl !== undefined && { databaseUrl }) });
  const keys = createKeyClient(stack, { url: () => stack.ingresses.at(-1)?.url ?? '' });
  const before = await fill(stack, keys);
  const store = copy(stack);
  await store.save(stack);

  const later = await keys.newKey('later');
  const further = createFurtherKeyClient(keys, 'saved');
  await further.revoke(before.furtherId);
  t.is((await keys.infer(before.key)).status, 200);

  await stopAll(stack);
  await store.restore(stack);
  await emptyRedis(stack);
  await stack.startIngress();
  await stack.startWorker();

  t.like(await keys.infer(later), { status: 401 }, 'what was created since is gone');
  t.is((await keys.infer(before.furtherKey)).status, 200, 'a key that was revoked since is valid again');
  const quota = async () => (await keys.send('GET', '/billing/quota', { bearer: before.key })).body;
  const restored = await quota();
  t.like(restored, { plan: 'pro', topUp: 1_000 });
  t.true(Number(restored.used) >= Number(before.quota.used), 'usage continues from that of the backup');
  t.is((await keys.infer(before.key, 'large-chat')).status, 200);
  t.true(Number((await quota()).used) > Number(restored.used));

  const user = await openBatchClient({ ...stack, ingresses: stack.ingresses.slice(-1) }, 'saved', before.key);
  const batch = await user.client.batches.retrieve(before.batch);
  t.deepEqual(await user.lines(batch), before.lines, 'the files of batches are restored');
  const again = await user.ended((await user.create(linesOf(2))).id);
  t.is(again.request_counts?.completed, 2, 'batches run');
  const bearer = await keys.token('operator', true);
  const trail = await keys.send('GET', '/admin/audit?account=user%3Asaved', { bearer });
  t.like(trail.body, { data: { length: 3, 0: { kind: 'key' }, 1: { kind: 'account' }, 2: { kind: 'key' } } });
}

/** An account with a plan, a top-up, a further key, usage, and a batch that has ended. */
async function fill(stack: Stack, keys: KeyClient) {
  const key = await keys.newKey('saved');
  await keys.change('user:saved', { plan: 'pro', topUp: { id: 'one', tokens: 1_000 }, reason: 'a customer' });
  const { id: furtherId, key: furtherKey } = await createFurtherKeyClient(keys, 'saved').create();
  const user = await openBatchClient(stack, 'saved', key);
  const batch = await user.ended((await user.create(linesOf(5))).id);
  const lines = await user.lines(batch);
  let quota = (await keys.send('GET', '/billing/quota', { bearer: key })).body;
  // The store has the usage a moment after the batch has ended.
  const usage = async () =>
    (await keys.send('GET', '/billing/usage', { bearer: key })).body.total as { requests: number };
  while ((await usage()).requests < 5) await new Promise(setImmediate);
  quota = (await keys.send('GET', '/billing/quota', { bearer: key })).body;
  return { key, furtherId: String(furtherId), furtherKey: String(furtherKey), batch: batch.id, lines, quota };
}

async function stopAll({ ingresses, workers }: Stack): Promise<void> {
  const all = [...ingresses.splice(0), ...workers.splice(0)];
  await Promise.all(all.map(({ process }) => process.stop()));
}

async function emptyRedis({ redisUrl }: Stack): Promise<void> {
  const redis = openRedis(redisUrl);
  await Promise.all((await nodesOf(redis)).map((node) => node.flushdb()));
  redis.disconnect();
}
