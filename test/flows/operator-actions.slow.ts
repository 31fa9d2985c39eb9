import test, { type ExecutionContext } from 'ava';
import type { FleetView } from '../../ingress/routes/fleet.ts';
import { type Stack, startStack } from '../stack/stack.ts';
import { linesOf, openBatchClient } from '../support/batch-client.ts';
import { chat, streamEvents } from '../support/chat.ts';
import { createFurtherKeyClient } from '../support/further-key-client.ts';
import { createKeyClient, type KeyClient } from '../support/key-client.ts';
import { createOperatorClient, type OperatorClient } from '../support/operator-client.ts';

/** In a pool without workers: its requests keep waiting. */
const models = { 'no-worker': { tier: 'guest', pool: 'unserved', backends: ['onprem-a'] } };

let stack: Stack;
let operator: OperatorClient;
let onA: KeyClient;
let onB: KeyClient;
const parts = new AsyncDisposableStack();

test.before(async () => {
  stack = parts.use(await startStack({ ingresses: 2, models, env: { POOLS: 'default', TRUST_PROXY: '1' } }));
  operator = createOperatorClient(stack);
  onA = createKeyClient(stack);
  onB = createKeyClient(stack, { url: () => stack.ingresses[1]?.url ?? '' });
});
test.after.always(() => parts.disposeAsync());

const urlOf = (index: number) => stack.ingresses[index]?.url ?? '';
const ended = { code: 'FORBIDDEN', error: 'An operator has ended this request.' };

test.serial('an operator ends requests of an account on another ingress, and its others continue', async (t) => {
  const key = await onA.newKey('ann');
  answersAre(t, { endless: true, chunkMs: 20 });
  const ask = (stream: boolean, model = 'small-chat') =>
    chat({ url: urlOf(1), key, question: 'Go on', stream, model, fields: { max_tokens: 4_000 } });
  const queued = ask(false, 'no-worker');
  const [waiting] = await operator.until('user:ann', ([first]) => first?.state === 'queued');
  const streams = [await ask(true), await ask(true)].map((response) => response.body?.getReader());
  for (const stream of streams) await stream?.read();
  const all = await operator.until(
    'user:ann',
    (found) => found.filter(({ state }) => state === 'streaming').length === 2,
  );
  const [, streaming] = all; // the earlier one of two

  const reason = 'It blocks a model server.';
  t.like(await operator.endRequest(waiting?.id ?? '', { reason }), {
    status: 200,
    body: { id: waiting?.id, account: 'user:ann' },
  });
  t.like(await operator.endRequest(streaming?.id ?? ''), { status: 200, body: { state: 'streaming' } });
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

  const records = await operator.auditOf('user:ann');
  const by = { actor: 'user:olga', address: '198.51.100.9' };
  t.like(records, {
    length: 2,
    0: { ...by, change: { requestEnded: streaming?.id }, reason: null },
    1: { ...by, change: { requestEnded: waiting?.id }, reason },
  });
  const found = await operator.until(
    'user:ann',
    (list) => list.length === 2 && list.some(({ state }) => state === 'ended'),
  );
  t.deepEqual(
    found.map(({ state, outcome }) => outcome ?? state),
    ['streaming', 'cancelled'],
    'the one that waited has used nothing, and leaves no record of usage',
  );
  const quota = async () => (await operator.operate('GET', '/admin/accounts/user:ann/quota')).body;
  const { used } = await quota();
  t.true(Number(used) > 0, 'what was delivered is charged');
  t.like((await operator.operate('GET', '/admin/accounts/user:ann/limits')).body, { requestsAtOnce: { used: 1 } });

  t.like(await operator.endRequest(streaming?.id ?? '', { reason: 'again' }), {
    status: 200,
    body: { state: 'ended' },
  });
  t.is((await operator.auditOf('user:ann')).length, 2, 'a repeat adds no record');
  await other?.cancel();
});

test.serial('an operator cancels a batch, with one record however often it is repeated', async (t) => {
  answersAre(t, { untilHealed: true });
  const batches = await openBatchClient(stack, 'cas');
  const { id } = await batches.create(linesOf(3));
  const cancel = (body: object) => operator.cancelBatch(id, body);
  const [line] = await operator.until('user:cas', (found) => found.length > 0);
  t.like(await operator.endRequest(line?.id ?? ''), { status: 409, body: { code: 'CONFLICT' } });
  t.like(await cancel({ reason: 'too large' }), { status: 200, body: { id, status: 'cancelling' } });
  t.is((await batches.ended(id)).status, 'cancelled');
  t.is((await cancel({})).status, 409);
  const record = { actor: 'user:olga', address: '198.51.100.9', change: { batchCancelled: id }, reason: 'too large' };
  t.like(await operator.auditOf('user:cas'), { length: 1, 0: record });
});

test.serial('a key that an operator revokes stops working on every ingress, with one record', async (t) => {
  const key = await onA.newKey('eve');
  const further = createFurtherKeyClient(onA, 'eve');
  const other = await further.create();
  const own = await further.create();
  for (const keys of [onA, onB]) t.is((await keys.models(other.key)).status, 200);
  await further.revoke(own.id);
  t.deepEqual(await operator.auditOf('user:eve'), []);
  t.like(
    await operator.auditOf('user:eve', 'user:eve'),
    { length: 4, 0: { change: { keyRevoked: own.id } }, 1: { change: { keyMinted: own.id } } },
    'what the account does with its own keys is in the audit trail, too',
  );
  const revoke = (id: string, reason: string) =>
    operator.operate('DELETE', `/admin/accounts/user:eve/keys/${id}?${new URLSearchParams({ reason })}`);
  for (const reason of ['It is in a public repository.', 'again'])
    await assertRevoked(t, await revoke(other.id, reason));
  for (const keys of [onA, onB]) t.is((await keys.models(other.key)).status, 401);
  t.is((await onB.models(key)).status, 200, 'the default key still works');
  const record = { actor: 'user:olga', address: '198.51.100.9', change: { keyRevoked: other.id } };
  t.like(await operator.auditOf('user:eve'), { length: 1, 0: { ...record, reason: 'It is in a public repository.' } });
});

test.serial('a backend that an operator pauses gets no new calls, and those in flight go on', async (t) => {
  const key = await onA.newKey('pam');
  const ask = (stream = false) =>
    chat({ url: urlOf(1), key, question: 'Hello?', stream, fields: { max_tokens: 4_000 } });
  const until = async (status: number) => {
    for (;;) {
      const response = await ask();
      const text = await response.text();
      if (response.status === status) return { text, headers: response.headers };
    }
  };
  const fleet = async () => (await operator.operate('GET', '/admin/fleet')).body as unknown as FleetView; // documented
  const names = (await fleet()).backends.map(({ backend }) => backend);
  answersAre(t, { endless: true, chunkMs: 20 });
  const stream = (await ask(true)).body?.getReader();
  await stream?.read();
  for (const server of stack.modelServers) server.heal();
  const pausing = (name: string) => `/admin/fleet/backends/${encodeURIComponent(name)}/pause`;
  for (const name of names) {
    const { status, body } = await operator.operate('POST', pausing(name), { minutes: 5, reason: 'A new driver.' });
    t.is(status, 200);
    t.like(body, { object: 'backend_pause', backend: name, paused: { by: 'user:olga', reason: 'A new driver.' } });
  }
  const refused = await until(503);
  t.like(JSON.parse(refused.text), { code: 'UPSTREAMS_EXHAUSTED' });
  t.is(refused.headers.get('retry-after'), '60', 'the longest time of this header');
  const before = stack.modelServers.reduce((sum, { calls }) => sum + calls().length, 0);
  t.is((await ask()).status, 503);
  t.is(
    stack.modelServers.reduce((sum, { calls }) => sum + calls().length, 0),
    before,
    'no backend is called',
  );
  t.false((await stream?.read())?.done, 'the call in flight continues');
  await stream?.cancel();
  t.true((await fleet()).backends.every(({ paused }) => paused?.by === 'user:olga'));
  const ready = (await (await fetch(`${stack.workers[0]?.operationsUrl}/readyz`)).json()) as { pauses: object[] };
  t.is(ready.pauses.filter((pause) => 'kind' in pause && pause.kind === 'operator').length, names.length);
  for (const name of names) t.is((await operator.operate('DELETE', pausing(name))).status, 200);
  await until(200);
  t.is((await operator.operate('DELETE', pausing(names[0] ?? ''))).status, 200);
  const records = (await operator.auditOf('user:olga')).map(({ change, reason }) => ({ change, reason })).toReversed();
  t.deepEqual(records, [
    ...names.map((backend) => ({ change: { backendPaused: { backend, minutes: 5 } }, reason: 'A new driver.' })),
    ...names.map((backendResumed) => ({ change: { backendResumed }, reason: null })),
  ]);
});

async function assertRevoked(
  t: ExecutionContext,
  { status, body }: Awaited<ReturnType<OperatorClient['operate']>>,
): Promise<void> {
  const { changes } = body as { changes: { by: string; keyRevoked?: string }[] }; // the documented answer
  t.is(status, 200);
  t.like(changes[0], { by: 'user:olga' });
}

/** How all model servers answer until the test ends. */
function answersAre(t: ExecutionContext, how: Parameters<Stack['modelServers'][number]['fail']>[0]): void {
  for (const server of stack.modelServers) {
    server.fail(how);
    t.teardown(() => server.heal());
  }
}
