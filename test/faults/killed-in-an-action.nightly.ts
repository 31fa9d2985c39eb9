import test from 'ava';
import { requestsToEndKey } from '../../shared/redis/keys.ts';
import { type Stack, startStack } from '../stack/stack.ts';
import { linesOf, openBatchClient } from '../support/batch-client.ts';
import { chat } from '../support/chat.ts';
import { createKeyClient } from '../support/key-client.ts';
import { createOperatorClient, type OperatorClient } from '../support/operator-client.ts';
import { scriptDescription } from '../support/script-description.ts';
import { addressIn, startTcpProxy } from '../support/tcp-proxy.ts';

/*
 * An ingress that ends something for an operator is held by a proxy between it and Redis when it has written the record, and killed there.
 */
const unmark = scriptDescription('shared/account-changes/unmark-change.lua');
/** In a pool without workers: its requests keep waiting. */
const models = { 'no-worker': { tier: 'guest', pool: 'unserved', backends: ['onprem-a'] } };

let stack: Stack;
let operator: OperatorClient;
const parts = new AsyncDisposableStack();

test.before(async () => {
  stack = parts.use(await startStack({ models, env: { POOLS: 'default' } }));
  operator = createOperatorClient(stack);
});
test.after.always(() => parts.disposeAsync());

type Killed = { hold: { before: string } | { after: string }; path: string };

/** Sends an action through an ingress that is held at this point, and killed there. */
async function killedDuring({ hold, path }: Killed): Promise<void> {
  await using proxy = await startTcpProxy(addressIn(stack.redisUrl));
  const { url, process } = await stack.startIngress({ REDIS_URL: `redis://127.0.0.1:${proxy.port}` });
  const dying = createKeyClient(stack, { url: () => url });
  await operator.operate('GET', '/admin/plans', undefined, dying); // its connections are open
  const reached = 'before' in hold ? proxy.holdBefore(hold.before) : proxy.holdAfter(hold.after);
  const lost = operator.operate('POST', path, { reason: 'why' }, dying).catch(() => 'lost');
  await reached;
  process.kill('SIGKILL');
  await lost;
  await process.exited;
}

test.serial(
  'an ingress killed before it ends a request leaves the record, and a repeat ends it without another',
  async (t) => {
    const key = await createKeyClient(stack).newKey('ben');
    const queued = chat({ url: stack.ingresses[0]?.url ?? '', key, question: 'Wait', model: 'no-worker' });
    const [waiting] = await operator.until('user:ben', ([first]) => first?.state === 'queued');
    const id = waiting?.id ?? '';
    await killedDuring({ hold: { before: requestsToEndKey }, path: `/admin/requests/${id}/cancel` });
    t.like(await operator.auditOf('user:ben'), { length: 1, 0: { change: { requestEnded: id }, reason: 'why' } });
    t.like(await operator.requestsOf('user:ben'), [{ id, state: 'queued' }]);
    t.is((await operator.endRequest(id, { reason: 'again' })).status, 200);
    t.is((await queued).status, 403);
    t.is((await operator.auditOf('user:ben')).length, 1);
  },
);

test.serial(
  'an ingress killed before it cancels a batch leaves the record, and a repeat cancels it without another',
  async (t) => {
    const batches = await openBatchClient(stack, 'dan');
    const { id } = await batches.create(linesOf(3, { model: 'no-worker' }));
    await batches.until(id, ({ status }) => status === 'in_progress');
    await killedDuring({ hold: { after: unmark }, path: `/admin/batches/${id}/cancel` });
    t.like(await operator.auditOf('user:dan'), { length: 1, 0: { change: { batchCancelled: id }, reason: 'why' } });
    t.is((await batches.client.batches.retrieve(id)).status, 'in_progress');
    t.is((await operator.cancelBatch(id, { reason: 'again' })).status, 200);
    await batches.ended(id);
    t.is((await operator.auditOf('user:dan')).length, 1);
  },
);
