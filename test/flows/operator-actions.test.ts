import { readFileSync } from 'node:fs';
import test, { type ExecutionContext } from 'ava';
import { requestsToEndKey } from '../../shared/redis/keys.ts';
import { type Stack, startStack } from '../stack/stack.ts';
import { linesOf, openBatchClient } from '../support/batch-client.ts';
import { chat, streamEvents } from '../support/chat.ts';
import { createFurtherKeyClient } from '../support/further-key-client.ts';
import { createKeyClient, type KeyClient } from '../support/key-client.ts';
import { addressIn, startTcpProxy } from '../support/tcp-proxy.ts';

/** In a pool without workers: its requests keep waiting. */
const models = { 'no-worker': { tier: 'guest', pool: 'unserved', backends: ['onprem-a'] } };
const unmark = readFileSync(new URL('../../shared/account-changes/unmark-change.lua', import.meta.url), 'utf8');

let stack: Stack;
let onA: KeyClient;
let onB: KeyClient;
const parts = new AsyncDisposableStack();

test.before(async () => {
  stack = parts.use(await startStack({ ingresses: 2, models, env: { POOLS: 'default', TRUST_PROXY: '1' } }));
  onA = createKeyClient(stack);
  onB = createKeyClient(stack, { url: () => stack.ingresses[1]?.url ?? '' });
});
test.after.always(() => parts.disposeAsync());
test.afterEach.always(() => {
  for (const server of stack.modelServers) server.heal();
});

type Shown = { id: string; state: string; outcome: string | null; model: string };
type Found = { actor: string; address: string; change: object; reason: string | null };

/** A call by an operator, from one address. */
async function operate(method: string, path: string, body?: object, keys = onA) {
  const headers = { 'x-forwarded-for': '198.51.100.9' };
  return keys.send(method, path, { bearer: await keys.token('olga', true), headers, ...(body && { body }) });
}

async function requestsOf(account: string): Promise<Shown[]> {
  const { body } = await operate('GET', `/admin/accounts/${account}/requests`);
  return body.data as Shown[]; // a list of the service itself
}

/** The account's requests, once they hold this. */
async function until(account: string, holds: (requests: Shown[]) => boolean): Promise<Shown[]> {
  for (;;) {
    const found = await requestsOf(account);
    if (holds(found)) return found;
  }
}

async function auditOf(account: string): Promise<Found[]> {
  const { body } = await operate('GET', `/admin/audit?account=${account}`);
  return body.data as Found[]; // a list of the service itself
}

const urlOf = (index: number) => stack.ingresses[index]?.url ?? '';
const end = (id: string, body: object = {}, keys = onA) => operate('POST', `/admin/requests/${id}/cancel`, body, keys);
const ended = { code: 'FORBIDDEN', error: 'An operator has ended this request.' };

test.serial('an operator ends requests of an account on another ingress, and its others continue', async (t) => {
  const key = await onA.newKey('ann');
  for (const server of stack.modelServers) server.fail({ endless: true, chunkMs: 20 });
  const ask = (stream: boolean, model = 'small-chat') =>
    chat({ url: urlOf(1), key, question: 'Go on', stream, model, fields: { max_tokens: 4_000 } });
  const queued = ask(false, 'no-worker');
  const [waiting] = await until('user:ann', ([first]) => first?.state === 'queued');
  const streams = [await ask(true), await ask(true)].map((response) => response.body?.getReader());
  for (const stream of streams) await stream?.read();
  const all = await until('user:ann', (found) => found.filter(({ state }) => state === 'streaming').length === 2);
  const [, streaming] = all; // the earlier one of two

  const reason = 'It blocks a model server.';
  t.like(await end(waiting?.id ?? '', { reason }), { status: 200, body: { id: waiting?.id, account: 'user:ann' } });
  t.like(await end(streaming?.id ?? ''), { status: 200, body: { state: 'streaming' } });
  const refused = await queued;
  t.is(refused.status, 403);
  t.deepEqual(await refused.json(), ended);
  let text = '';
  const [mine, other] = streams;
  for (let piece = await mine?.read(); piece?.done === false; piece = await mine?.read()) {
    text += Buffer.from(piece.value).toString();
  }
  t.like(streamEvents(text).at(-1), { error: { code: 'FORBIDDEN', message: ended.error } });
  t.false((await other?.read())?.done, 'the other one continues');

  const records = await auditOf('user:ann');
  const by = { actor: 'user:olga', address: '198.51.100.9' };
  t.like(records, {
    length: 2,
    0: { ...by, change: { requestEnded: streaming?.id }, reason: null },
    1: { ...by, change: { requestEnded: waiting?.id }, reason },
  });
  const found = await until('user:ann', (list) => list.length === 2 && list.some(({ state }) => state === 'ended'));
  t.deepEqual(
    found.map(({ state, outcome }) => outcome ?? state),
    ['streaming', 'cancelled'],
    'the one that waited has used nothing, and leaves no record of usage',
  );
  const quota = async () => (await operate('GET', '/admin/accounts/user:ann/quota')).body;
  const { used } = await quota();
  t.true(Number(used) > 0, 'what was delivered is charged');
  t.like((await operate('GET', '/admin/accounts/user:ann/limits')).body, { requestsAtOnce: { used: 1 } });

  t.like(await end(streaming?.id ?? '', { reason: 'again' }), { status: 200, body: { state: 'ended' } });
  t.is((await auditOf('user:ann')).length, 2, 'a repeat adds no record');
  await other?.cancel();
});

type Killed = { hold: { before: string } | { after: string }; path: string };

/** Sends an action through an ingress that is held at this point, and killed there. */
async function killedDuring({ hold, path }: Killed): Promise<void> {
  await using proxy = await startTcpProxy(addressIn(stack.redisUrl));
  const { url, process } = await stack.startIngress({ REDIS_URL: `redis://127.0.0.1:${proxy.port}` });
  const dying = createKeyClient(stack, { url: () => url });
  await operate('GET', '/admin/plans', undefined, dying); // its connections are open
  const reached = 'before' in hold ? proxy.holdBefore(hold.before) : proxy.holdAfter(hold.after);
  const lost = operate('POST', path, { reason: 'why' }, dying).catch(() => 'lost');
  await reached;
  process.kill('SIGKILL');
  await lost;
  await process.exited;
}

test.serial(
  'an ingress killed before it ends a request leaves the record, and a repeat ends it without another',
  async (t) => {
    const key = await onA.newKey('ben');
    const queued = chat({ url: urlOf(1), key, question: 'Wait', model: 'no-worker' });
    const [waiting] = await until('user:ben', ([first]) => first?.state === 'queued');
    const id = waiting?.id ?? '';
    await killedDuring({ hold: { before: requestsToEndKey }, path: `/admin/requests/${id}/cancel` });
    t.like(await auditOf('user:ben'), { length: 1, 0: { change: { requestEnded: id }, reason: 'why' } });
    t.like(await requestsOf('user:ben'), [{ id, state: 'queued' }]);
    t.is((await end(id, { reason: 'again' }, onB)).status, 200);
    t.is((await queued).status, 403);
    t.is((await auditOf('user:ben')).length, 1);
  },
);

/** A batch that runs, and its client. */
async function startBatch(account: string, model = 'no-worker') {
  const batches = await openBatchClient(stack, account);
  const { id } = await batches.create(linesOf(3, { model }));
  await batches.until(id, ({ status }) => status === 'in_progress');
  return { id, batches, cancel: (body: object = {}) => operate('POST', `/admin/batches/${id}/cancel`, body) };
}

test.serial('an operator cancels a batch, with one record however often it is repeated', async (t) => {
  for (const server of stack.modelServers) server.fail({ latencyMs: 1_000 });
  const { id, batches, cancel } = await startBatch('cas', 'small-chat');
  const [line] = await until('user:cas', (found) => found.length > 0);
  t.like(await end(line?.id ?? ''), { status: 409, body: { code: 'CONFLICT' } });
  t.like(await cancel({ reason: 'too large' }), { status: 200, body: { id, status: 'cancelling' } });
  t.is((await batches.ended(id)).status, 'cancelled');
  t.is((await cancel()).status, 409);
  const record = { actor: 'user:olga', address: '198.51.100.9', change: { batchCancelled: id }, reason: 'too large' };
  t.like(await auditOf('user:cas'), { length: 1, 0: record });
});

test.serial(
  'an ingress killed before it cancels a batch leaves the record, and a repeat cancels it without another',
  async (t) => {
    const { id, batches, cancel } = await startBatch('dan');
    await killedDuring({ hold: { after: unmark }, path: `/admin/batches/${id}/cancel` });
    t.like(await auditOf('user:dan'), { length: 1, 0: { change: { batchCancelled: id }, reason: 'why' } });
    t.is((await batches.client.batches.retrieve(id)).status, 'in_progress');
    t.is((await cancel({ reason: 'again' })).status, 200);
    await batches.ended(id);
    t.is((await auditOf('user:dan')).length, 1);
  },
);

test.serial('a key that an operator revokes stops working on every ingress, with one record', async (t) => {
  const key = await onA.newKey('eve');
  const further = createFurtherKeyClient(onA, 'eve');
  const other = await further.create();
  const own = await further.create();
  for (const keys of [onA, onB]) t.is((await keys.models(other.key)).status, 200);
  await further.revoke(own.id);
  t.deepEqual(await auditOf('user:eve'), [], 'what the account does with its own keys is not in the audit trail');
  const revoke = (id: string, reason: string) =>
    operate('DELETE', `/admin/accounts/user:eve/keys/${id}?${new URLSearchParams({ reason })}`);
  for (const reason of ['It is in a public repository.', 'again'])
    await assertRevoked(t, await revoke(other.id, reason));
  for (const keys of [onA, onB]) t.is((await keys.models(other.key)).status, 401);
  t.is((await onB.models(key)).status, 200, 'the default key still works');
  const record = { actor: 'user:olga', address: '198.51.100.9', change: { keyRevoked: other.id } };
  t.like(await auditOf('user:eve'), { length: 1, 0: { ...record, reason: 'It is in a public repository.' } });
});

async function assertRevoked(
  t: ExecutionContext,
  { status, body }: Awaited<ReturnType<typeof operate>>,
): Promise<void> {
  const { changes } = body as { changes: { by: string; keyRevoked?: string }[] }; // the documented answer
  t.is(status, 200);
  t.like(changes[0], { by: 'user:olga' });
}
