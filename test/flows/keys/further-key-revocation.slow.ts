import test, { type ExecutionContext } from 'ava';
import { type Stack, startStack } from '../../stack/stack.ts';
import { linesOf, openBatchClient } from '../../support/batch-client.ts';
import { chat, streamEvents } from '../../support/chat.ts';
import { createFileClient, line } from '../../support/file-client.ts';
import { createFurtherKeyClient } from '../../support/further-key-client.ts';
import { createKeyClient, type KeyClient } from '../../support/key-client.ts';
import { sized } from '../../support/size.ts';

let stack: Stack;
let onA: KeyClient;
let onB: KeyClient;
const parts = new AsyncDisposableStack();

test.before(async () => {
  stack = parts.use(await startStack({ ingresses: 2 }));
  onA = createKeyClient(stack, { url: () => stack.ingresses[0]?.url ?? '' });
  onB = createKeyClient(stack, { url: () => stack.ingresses[1]?.url ?? '' });
});

test.after.always(() => parts.disposeAsync());

async function statuses(key: string): Promise<number[]> {
  return Promise.all([onB.models(key), onB.infer(key)].map(async (answer) => (await answer).status));
}

test.serial('repeatedly: what one ingress takes from a further key is gone immediately at the other', async (t) => {
  let account = createFurtherKeyClient(onA, 'alice');
  let [id, key] = ['', ''];
  for (let round = 0; round < sized(20, 200); round++) {
    if (round % 20 === 0) {
      account = createFurtherKeyClient(onA, `alice-${round}`); // a plan allows only so many requests a minute
      ({ id, key } = await account.create());
    }
    t.deepEqual(await statuses(key), [200, 200], `round ${round}`);
    t.is((await account.change(id, { models: ['medium-chat'] })).status, 200);
    t.deepEqual(await statuses(key), [200, 403], `round ${round}: narrowed to another model`);
    t.is((await account.change(id, { models: null, endpoints: ['/v1/embeddings'] })).status, 200);
    t.deepEqual(await statuses(key), [200, 403], `round ${round}: narrowed to another endpoint`);
    t.is((await account.change(id, { endpoints: null, allowed_ips: ['203.0.113.7'] })).status, 200);
    t.deepEqual(await statuses(key), [403, 403], `round ${round}: narrowed to another address`);
    t.is((await account.change(id, { allowed_ips: null })).status, 200);
    t.deepEqual(await statuses(key), [200, 200], `round ${round}: as wide as before`);

    const { body } = await account.rotate(id);
    t.deepEqual(await statuses(key), [401, 401], `round ${round}: rotated without grace`);
    const next = String(body.key);
    t.deepEqual(await statuses(next), [200, 200], `round ${round}: the new key`);
    const { body: graced } = await account.rotate(String(body.id), { grace_seconds: 3_600 });
    t.deepEqual(await statuses(next), [200, 200], `round ${round}: in its grace`);
    await account.revoke(String(body.id));
    t.deepEqual(await statuses(next), [401, 401], `round ${round}: revoked in its grace`);
    [id, key] = [String(graced.id), String(graced.key)];
  }
});

test.serial('a revoked further key is rejected on every route, even if its request has other errors', async (t) => {
  const account = createFurtherKeyClient(onA, 'carol');
  const { id, key } = await account.create();
  t.deepEqual(await statuses(key), [200, 200]);
  t.is((await account.revoke(id)).status, 200);
  const requests = [
    onB.models(key),
    onB.send('GET', '/v1/key', { bearer: key }),
    onB.send('GET', '/v1/models/nothing', { bearer: key }),
    onB.send('GET', '/billing/usage?month=x', { bearer: key }),
    onB.send('POST', '/v1/chat/completions', { bearer: key, body: '{"messages":' }),
    onB.send('POST', '/v1/chat/completions', { bearer: key, body: { model: 'nothing', messages: [] } }),
  ];
  for (const request of requests) t.like(await request, { status: 401, body: { code: 'INVALID_KEY' } });
});

test.serial('what a key may do with files is narrower immediately at the other ingress', async (t) => {
  const account = createFurtherKeyClient(onA, 'dora');
  const { id, key } = await account.create();
  const list = async () => (await onB.send('GET', '/v1/files', { bearer: key })).status;
  const other = await account.create();
  const files = createFileClient(stack, other.key);
  const file = (await files.upload(line('a'))).id;
  const retrieve = async () => (await onB.send('GET', `/v1/files/${file}`, { bearer: key })).status;
  const remove = async () => (await onB.send('DELETE', `/v1/files/${file}`, { bearer: key })).status;
  t.deepEqual([await list(), await retrieve()], [200, 200]);
  t.like((await account.change(id, { files: 'read' })).body, { files: 'read' });
  t.deepEqual([await list(), await retrieve(), await remove()], [200, 200, 403]);
  t.like((await account.change(id, { files: null, models: ['small-chat'] })).body, { files: 'own' });
  t.deepEqual([await list(), await retrieve(), await remove()], [200, 404, 404]);
  t.like((await account.change(id, { files: 'none' })).body, { files: 'none' });
  t.deepEqual([await list(), await retrieve(), await remove()], [403, 403, 403]);
  t.is((await files.remove(file)).id, file);
});

test.serial(
  'a key ends with its requests on another ingress and its batches, and those of other keys continue',
  async (t) => {
    answersAre(t, { endless: true, chunkMs: 20 });
    const account = createFurtherKeyClient(onA, 'emma');
    const [leaked, other] = [await account.create(), await account.create()];
    const url = stack.ingresses[1]?.url ?? '';
    const ask = async (key: string) =>
      (await chat({ url, key, question: 'Go on', stream: true, fields: { max_tokens: 4_000 } })).body?.getReader();
    const [mine, others] = [await ask(leaked.key), await ask(other.key)];
    await mine?.read();
    await others?.read();
    const batches = await openBatchClient(stack, 'emma', other.key);
    const ofLeaked = await openBatchClient(stack, 'emma', leaked.key);
    const [cancelled, kept] = [await ofLeaked.create(linesOf(3)), await batches.create(linesOf(3))];

    t.like(await account.call('DELETE', `/v1/keys/${leaked.id}?end_requests=true`), {
      status: 200,
      body: { state: 'revoked' },
    });
    let text = '';
    for (let piece = await mine?.read(); piece?.done === false; piece = await mine?.read()) {
      text += Buffer.from(piece.value).toString();
    }
    t.like(streamEvents(text).at(-1), { error: { code: 'FORBIDDEN' } });
    t.false((await others?.read())?.done, 'the request of another key continues');
    t.is((await batches.ended(cancelled.id)).status, 'cancelled');
    const found = await batches.client.batches.retrieve(kept.id);
    t.true(['validating', 'in_progress'].includes(found.status), found.status);
    await others?.cancel();
  },
);

/** How all model servers answer until the test ends. */
function answersAre(t: ExecutionContext, how: Parameters<Stack['modelServers'][number]['fail']>[0]): void {
  for (const server of stack.modelServers) {
    server.fail(how);
    t.teardown(() => server.heal());
  }
}
