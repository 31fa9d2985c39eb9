import test from 'ava';
import { type Stack, startStack } from '../../stack/stack.ts';
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
  for (let round = 0; round < sized(40, 200); round++) {
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
