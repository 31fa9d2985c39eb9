import test from 'ava';
import { type Stack, startStack } from '../../stack/stack.ts';
import { createFurtherKeyClient } from '../../support/further-key-client.ts';
import { createKeyClient, fullKey, type KeyClient, masked } from '../../support/key-client.ts';
import { soonEnded } from '../../support/soon-ended.ts';

let stack: Stack;
let onA: KeyClient;
let onB: KeyClient;
const parts = new AsyncDisposableStack();

test.before(async () => {
  stack = parts.use(await startStack({ ingresses: 2, aliases: { little: 'small-chat' } }));
  onA = createKeyClient(stack, { url: () => stack.ingresses[0]?.url ?? '' });
  onB = createKeyClient(stack, { url: () => stack.ingresses[1]?.url ?? '' });
});

test.after.always(() => parts.disposeAsync());

const ask = (client: KeyClient, bearer: string, path = '/v1/chat/completions', body: object = {}) =>
  client.send('POST', path, {
    bearer,
    body: { model: 'small-chat', messages: [{ role: 'user', content: 'Hello' }], ...body },
  });

/** Asks until the answer is not 200 any more: the end of a key comes by the clock of Redis. */
async function untilRefused(client: KeyClient, bearer: string) {
  for (;;) {
    const answer = await client.models(bearer);
    if (answer.status !== 200) return answer;
  }
}

test('a further key is shown in full once, works everywhere beside the default key, and is listed masked', async (t) => {
  const account = createFurtherKeyClient(onA, 'alice');
  const byDefault = await onA.newKey('alice');
  const created = await account.create({ name: 'nightly import', allowed_ips: ['127.0.0.0/8', '::1'] });
  t.regex(created.key, fullKey);
  const shown = { name: 'nightly import', default: false, state: 'active', expires_at: null, limits: null };
  t.like(created, { ...shown, object: 'key', last_used_at: null, allowed_ips: ['127.0.0.0/8', '::1'] });
  for (const key of [byDefault, created.key]) t.is((await onB.models(key)).status, 200);
  t.is((await onB.infer(created.key)).status, 200);

  const listed = await account.list();
  t.deepEqual(
    listed.map(({ id, key, name }) => ({ id, key, name })),
    [
      { id: listed[0]?.id ?? '', key: masked(byDefault), name: 'default' },
      { id: created.id, key: masked(created.key), name: 'nightly import' },
    ],
  );
  t.like((await account.get(created.id)).body, { ...shown, key: masked(created.key) });
  t.deepEqual(
    (await onA.list('alice')).map(({ key }) => key),
    [masked(byDefault)],
  );

  const own = await onB.send('GET', '/v1/key', { bearer: created.key });
  t.like(own.body, { ...shown, id: created.id, key: masked(created.key), plan: 'free' });
  t.like((await onB.send('GET', '/v1/key', { bearer: byDefault })).body, {
    default: true,
    name: 'default',
    plan: 'free',
  });
});

test('a guest key tells what its device has used of its day', async (t) => {
  const guest = String((await onA.guest('device-of-further-keys')).body.key);
  const own = async () => (await onB.send('GET', '/v1/key', { bearer: guest })).body;
  t.like(await own(), { default: true, plan: 'guest-device', day: { requests: 0, limit: 50 } });
  for (let made = 1; made <= 2; made += 1) {
    t.is((await onA.infer(guest)).status, 200);
    t.like(await own(), { day: { requests: made, limit: 50 } }, 'exact, at any ingress');
  }
  const unlimited = await onA.newKey('without-a-day');
  t.like((await onB.send('GET', '/v1/key', { bearer: unlimited })).body, { day: { requests: 0, limit: null } });
});

test('the usage of a key is its own', async (t) => {
  const account = createFurtherKeyClient(onA, 'una');
  const [used, unused] = [await account.create(), await account.create()];
  t.is((await ask(onB, used.key)).status, 200);
  const usageOf = async (id: string) => (await account.get(id)).body.usage as { requests: number; tokens: number };
  while ((await usageOf(used.id)).requests === 0) await new Promise((resolve) => setTimeout(resolve, 20));
  const { requests, tokens } = await usageOf(used.id);
  t.is(requests, 1);
  t.true(tokens > 0);
  t.like(await usageOf(unused.id), { requests: 0, tokens: 0 });
});

test('an expired key is KEY_EXPIRED on every route, and lives again with a later end', async (t) => {
  const account = createFurtherKeyClient(onA, 'eve');
  const { made, end } = await soonEnded((expires_at) => account.create({ expires_at }));
  const { id, key } = made;
  t.like(await untilRefused(onB, key), { status: 401, body: { code: 'KEY_EXPIRED' } });
  t.true(Date.now() >= end * 1000 - 500, 'not before its end');
  const answers = [onA.models(key), ask(onB, key), ask(onB, key, '/v1/chat/completions', { model: 'nothing' })];
  const others = [onB.send('GET', '/billing/quota', { bearer: key }), onB.send('GET', '/v1/key', { bearer: key })];
  for (const answer of [...answers, ...others]) t.like(await answer, { status: 401, body: { code: 'KEY_EXPIRED' } });
  t.is((await account.get(id)).body.state, 'expired');
  t.like(await account.rotate(id), { status: 409 });
  t.like(await account.change(id, { expires_at: end }), { status: 400, body: { code: 'VALIDATION_ERROR' } });
  t.is((await account.change(id, { expires_at: end + 3_600 })).body.state, 'active');
  for (const client of [onA, onB]) t.is((await client.models(key)).status, 200);
});

test('an endpoint, a model and an address outside of a key are 403, each with what it is', async (t) => {
  const account = createFurtherKeyClient(onA, 'rob');
  const byEndpoint = await account.create({ endpoints: ['/v1/embeddings'] });
  const byModel = await account.create({ models: ['small-chat'] });
  const byAddress = await account.create({ allowed_ips: ['203.0.113.0/24'] });
  const refusals = [
    [await ask(onB, byEndpoint.key), /endpoint \/v1\/chat\/completions/],
    [await ask(onB, byModel.key, undefined, { model: 'medium-chat' }), /model "medium-chat"/],
    [await ask(onB, byAddress.key), /address/],
    [await onB.models(byAddress.key), /address/],
    [await onB.send('GET', '/billing/quota', { bearer: byAddress.key }), /address/],
  ] as const;
  for (const [answer, reason] of refusals) {
    t.like(answer, { status: 403, body: { code: 'FORBIDDEN' } });
    t.regex(String(answer.body.error), reason);
  }
  t.is((await ask(onB, byModel.key)).status, 200);
  const { body } = await onB.models(byModel.key);
  t.deepEqual(
    (body.data as { id: string }[]).map(({ id }) => id),
    ['small-chat'],
  );
  t.is((await onB.send('GET', '/v1/models/medium-chat', { bearer: byModel.key })).status, 404);
});

test('a key for an alias may use that name only, and is shown it', async (t) => {
  const { key } = await createFurtherKeyClient(onA, 'ali').create({ models: ['little'] });
  const statuses = await Promise.all(
    ['little', 'small-chat'].flatMap((model) => [
      ask(onB, key, undefined, { model }),
      onB.send('GET', `/v1/models/${model}`, { bearer: key }),
    ]),
  );
  t.deepEqual(
    statuses.map(({ status }) => status),
    [200, 200, 403, 404],
  );
  const { body } = await onB.models(key);
  t.deepEqual(
    (body.data as { id: string }[]).map(({ id }) => id),
    ['little'],
  );
});

test('a rotation answers with the new key in full and the old one with its end; a rotated key cannot be rotated again', async (t) => {
  const account = createFurtherKeyClient(onA, 'gus');
  await onA.newKey('gus');
  const [byDefault] = await account.list();
  for (const { id } of [await account.create({ limits: { requests_per_minute: 50 } }), byDefault ?? { id: '' }]) {
    const { status, body } = await account.rotate(id, { grace_seconds: 2 });
    t.is(status, 200);
    const { replaces } = body as { replaces: Record<string, unknown> };
    t.like(replaces, { id, state: 'rotated' });
    t.true(Number(replaces.valid_until) > Number(body.created_at));
    for (const client of [onA, onB]) t.is((await client.models(String(body.key))).status, 200);
    t.like(await account.rotate(id), { status: 409 });
  }
});

test('both keys work during the grace; after it only the new one does', async (t) => {
  const account = createFurtherKeyClient(onA, 'hal');
  const byDefault = await onA.newKey('hal');
  const further = await account.create({ models: ['small-chat'] });
  const ids = [(await account.list())[0]?.id ?? '', further.id];
  for (const [index, first] of [byDefault, further.key].entries()) {
    const { body: longer } = await account.rotate(ids[index] ?? '', { grace_seconds: 3_600 });
    const [id, old] = [String(longer.id), String(longer.key)];
    for (const client of [onA, onB]) for (const key of [first, old]) t.is((await client.models(key)).status, 200);
    const { body } = await account.rotate(id, { grace_seconds: 3 });
    t.like(await untilRefused(onB, old), { status: 401, body: { code: 'INVALID_KEY' } });
    t.is((await onA.infer(old)).status, 401);
    t.is((await onB.infer(String(body.key))).status, 200);
    const ended = (await account.get(id)).body;
    t.like(ended, { state: 'rotated', valid_until: null });
    t.is(typeof ended.ended_at, 'number');
    t.deepEqual((await account.revoke(id)).body, ended);
    t.is((await account.get(String(body.id))).body.state, 'active');
  }
  const settings = (await account.list()).find(({ name, state }) => name === 'a program' && state === 'active');
  t.deepEqual(settings?.models, ['small-chat'], 'the new key has the settings of the old one');
});

test('an account can have a hundred valid further keys', async (t) => {
  const account = createFurtherKeyClient(onA, 'max');
  const created = await Promise.all(Array.from({ length: 100 }, () => account.create()));
  t.is(new Set(created.map(({ id }) => id)).size, 100);
  const one = { name: 'one more' };
  t.like(await account.call('POST', '/v1/keys', one), { status: 409, body: { code: 'CONFLICT' } });
  const id = created[0]?.id ?? '';
  t.like(await account.rotate(id, { grace_seconds: 60 }), { status: 409 });
  t.is((await account.rotate(id)).status, 200);
  t.is((await account.revoke(created[1]?.id ?? '')).body.state, 'revoked');
  t.is((await account.call('POST', '/v1/keys', one)).status, 200);
});

test('a default key has no settings, and a key that has ended does not change', async (t) => {
  const account = createFurtherKeyClient(onA, 'ida');
  await onA.newKey('ida');
  const [byDefault] = await account.list();
  t.like(await account.change(byDefault?.id ?? '', { name: 'x' }), { status: 409, body: { code: 'CONFLICT' } });
  const { id } = await account.create();
  for (const ended of [id, byDefault?.id ?? '']) {
    const { body } = await account.revoke(ended);
    t.like(body, { state: 'revoked' });
    t.deepEqual((await account.revoke(ended)).body, body);
    for (const answer of [account.change(ended, { name: 'y' }), account.rotate(ended)])
      t.is((await answer).status, 409);
  }
});

test('an operator sees all keys of an account, and what changed', async (t) => {
  const account = createFurtherKeyClient(onA, 'zoe');
  await onA.newKey('zoe');
  const [byDefault] = await account.list();
  const { id } = await account.create({ name: 'import' });
  await account.change(id, { name: 'export' });
  const { body: graced } = await account.rotate(byDefault?.id ?? '', { grace_seconds: 3_600 });
  await account.revoke(id);
  const { body } = await onA.account('user:zoe');
  const keys = body.keys as { id: string; state: string; name?: string }[];
  t.deepEqual(
    keys.map(({ id, state, name }) => [id, state, name]),
    [
      [graced.id, 'active', 'default'],
      [byDefault?.id, 'rotated', 'default'],
      [id, 'revoked', 'export'],
    ],
  );
  const changes = body.changes as Record<string, unknown>[];
  const { keyRotated, keyRevoked, keyChanged, keyMinted } = Object.assign({}, ...changes.slice(0, 4).reverse());
  t.deepEqual(
    { keyRotated, keyRevoked, keyChanged },
    {
      keyRotated: { from: byDefault?.id, to: graced.id },
      keyRevoked: id,
      keyChanged: id,
    },
  );
  t.is(keyMinted, id);
});
