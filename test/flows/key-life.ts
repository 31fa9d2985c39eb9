import type { ExecutionContext } from 'ava';
import { guestPlan } from '../../shared/plan-file/plan-file-schema.ts';
import { startStack } from '../stack/stack.ts';
import { type Answer, createKeyClient, fullKey, type KeyClient, masked } from '../support/key-client.ts';
import { databaseUrl, type MongoServer } from '../support/mongodb/start-mongo.ts';

type Registrar = {
  test: {
    (title: string, prove: (t: ExecutionContext) => Promise<void>): void;
    before(prepare: () => Promise<void>): void;
    after: { always(end: () => Promise<void>): void };
  };
  /** The database server of the store, stopped after the service. Omit it to use the embedded store. */
  mongo?: MongoServer;
};

const invalidKey = { error: 'The API key is unknown, revoked or rotated.', code: 'INVALID_KEY' };

/** Tests of the life of keys over HTTP, on either store. */
export function testKeyLife({ test, mongo }: Registrar): void {
  let keys: KeyClient;
  const parts = new AsyncDisposableStack();
  const storeUrl = mongo && databaseUrl(mongo.url, `key_life_${process.pid}`);
  test.before(async () => {
    if (mongo !== undefined) parts.use(mongo);
    const stack = parts.use(await startStack({ databaseUrl: storeUrl, ingresses: 2 }));
    // Calls alternate between the two ingresses, so each must know the changes of the other.
    let calls = 0;
    keys = createKeyClient(stack, { url: () => stack.ingresses[calls++ % 2]?.url ?? '' });
  });
  test.after.always(() => parts.disposeAsync());

  const prove = (title: string, body: (t: ExecutionContext, keys: KeyClient) => Promise<void>) =>
    test(title, (t) => body(t, keys));

  prove('none → active: a signed-in account gets a key on the default plan, shown in full only once', mints);
  prove('active → active: a repeated mint shows the same key, masked, and creates nothing', mintsOnce);
  prove('active → rotated: a new key is active, the old one stops immediately, and the plan is kept', rotates);
  prove('active → revoked: the key stops, no other replaces it, and a mint creates a new one', revokes);
  prove('a key can be named only in full or by its masked form', namesKeys);
  prove('an unknown, foreign, revoked or rotated key gets the same 401 each time', refusesAlike);
  prove('the list shows every key, masked, newest first, with how it ended', lists);
  prove('of 100 concurrent mints one shows the key in full, and 99 the same key masked', mintsAtOnce);
  prove('of 50 concurrent rotations of the same key one succeeds, and one key is active', rotatesAtOnce);
  prove(
    'concurrent rotation and revocation have one outcome, the same in the list, the store and the responses',
    racesRotateAndRevoke,
  );
  prove('the last 100 keys are listed', listsTheLast);
  prove('a device gets the same key at each call, concurrent or sequential', mintsGuests);
  prove('a guest key can use only models of the guest tier', limitsGuests);
  prove('a changed plan applies to the next request', changesPlan);
  prove('every request of a suspended account gets 403 until the suspension ends', suspendsAccount);
  prove('an operator can suspend an account without a key, and one that was never seen', suspendsKeyless);
  prove('an operator can suspend a device', suspendsDevice);
  prove('the audit trail shows who changed what and when, and no changes without effect', audits);
}

async function works(t: ExecutionContext, keys: KeyClient, key: string): Promise<void> {
  t.is((await keys.models(key)).status, 200);
  t.is((await keys.infer(key)).status, 200);
}

async function isDead(t: ExecutionContext, keys: KeyClient, key: string): Promise<void> {
  const { status, body } = await keys.models(key);
  t.deepEqual([status, body], [401, invalidKey]);
  t.like(await keys.infer(key), { status: 401, code: 'INVALID_KEY' });
}

function isRefused(t: ExecutionContext, { status, body }: Answer): void {
  t.deepEqual([status, body], [401, invalidKey]);
}

async function mints(t: ExecutionContext, keys: KeyClient): Promise<void> {
  const { status, headers, body } = await keys.mint('mint');
  t.is(status, 200);
  t.is(headers.get('cache-control'), 'no-store');
  t.deepEqual(Object.keys(body).sort(), ['key', 'plan']);
  t.regex(String(body.key), fullKey);
  t.is(body.plan, 'free');
  await works(t, keys, String(body.key));
}

async function mintsOnce(t: ExecutionContext, keys: KeyClient): Promise<void> {
  const key = await keys.newKey('mint-once');
  const before = await keys.list('mint-once');
  const { status, body } = await keys.mint('mint-once');
  t.deepEqual([status, body], [200, { key: masked(key), plan: 'free' }]);
  t.deepEqual(await keys.list('mint-once'), before);
  await works(t, keys, key);
}

async function rotates(t: ExecutionContext, keys: KeyClient): Promise<void> {
  const old = await keys.newKey('rotate');
  await works(t, keys, old);
  await keys.change('user:rotate', { plan: 'pro' });
  const { status, headers, body } = await keys.rotate('rotate', old);
  t.is(status, 200);
  t.is(headers.get('cache-control'), 'no-store');
  t.deepEqual(Object.keys(body).sort(), ['key', 'plan', 'rotated']);
  t.like(body, { plan: 'pro', rotated: true });
  t.regex(String(body.key), fullKey);
  t.not(body.key, old);
  await isDead(t, keys, old);
  await works(t, keys, String(body.key));
}

async function revokes(t: ExecutionContext, keys: KeyClient): Promise<void> {
  const key = await keys.newKey('revoke');
  await works(t, keys, key);
  const { status, body } = await keys.revoke('revoke', key);
  t.deepEqual([status, body], [200, { key: masked(key), plan: 'free', revoked: true }]);
  await isDead(t, keys, key);
  t.deepEqual(
    (await keys.list('revoke')).map(({ state }) => state),
    ['revoked'],
  );
  isRefused(t, await keys.revoke('revoke', key));
  isRefused(t, await keys.rotate('revoke', key));

  const next = await keys.newKey('revoke');
  t.not(next, key);
  await works(t, keys, next);
  await isDead(t, keys, key);
  const listed = await keys.list('revoke');
  t.deepEqual(
    listed.map(({ state }) => state),
    ['active', 'revoked'],
  );
  t.not(listed[0]?.id, listed[1]?.id);
}

async function namesKeys(t: ExecutionContext, keys: KeyClient): Promise<void> {
  const first = await keys.newKey('named');
  for (const wrong of ['', 'svc_', first.slice(0, 10), `${first.slice(0, 10)}***`, `${first}x`, '****', '$ne', '*']) {
    isRefused(t, await keys.rotate('named', wrong));
    isRefused(t, await keys.revoke('named', wrong));
  }
  await works(t, keys, first);
  const rotated = await keys.rotate('named', masked(first));
  t.is(rotated.status, 200);
  isRefused(t, await keys.rotate('named', masked(first)));
  const second = String(rotated.body.key);
  await works(t, keys, second);
  t.is((await keys.revoke('named', masked(second))).status, 200);
  await isDead(t, keys, second);
}

async function refusesAlike(t: ExecutionContext, keys: KeyClient): Promise<void> {
  const rotatedAway = await keys.newKey('alike');
  const revoked = String((await keys.rotate('alike', rotatedAway)).body.key);
  await keys.revoke('alike', revoked);
  const active = await keys.newKey('alike');
  const anothers = await keys.newKey('alike-too');
  const unknown = `svc_${'0'.repeat(38)}`;
  for (const key of [rotatedAway, revoked, anothers, unknown]) {
    for (const named of [key, masked(key)]) {
      isRefused(t, await keys.rotate('alike', named));
      isRefused(t, await keys.revoke('alike', named));
      isRefused(t, await keys.revoke('never-seen', named));
    }
  }
  await works(t, keys, active);
  await works(t, keys, anothers);
}

async function lists(t: ExecutionContext, keys: KeyClient): Promise<void> {
  t.deepEqual(await keys.list('list'), []);
  const first = await keys.newKey('list');
  const second = String((await keys.rotate('list', first)).body.key);
  await keys.change('user:list', { plan: 'pro' });
  await keys.revoke('list', second);
  const third = await keys.newKey('list');
  await keys.change('user:list', { plan: 'free' });
  const listed = await keys.list('list');
  t.deepEqual(
    listed.map(({ key, plan, state }) => ({ key, plan, state })),
    [
      { key: masked(third), plan: 'free', state: 'active' },
      { key: masked(second), plan: 'pro', state: 'revoked' },
      { key: masked(first), plan: 'free', state: 'rotated' },
    ],
  );
  for (const { id, createdAt, endedAt, state } of listed) {
    t.regex(id, /^key_[0-9A-HJKMNP-TV-Z]{26}$/);
    t.is(new Date(createdAt).toISOString(), createdAt);
    t.is(endedAt === undefined, state === 'active');
    if (endedAt !== undefined) t.true(endedAt >= createdAt);
  }
}

async function mintsAtOnce(t: ExecutionContext, keys: KeyClient): Promise<void> {
  const answers = await Promise.all(Array.from({ length: 100 }, () => keys.mint('mint-at-once')));
  t.deepEqual(new Set(answers.map(({ status }) => status)), new Set([200]));
  const shown = answers.map(({ body }) => String(body.key));
  const [key = '', ...others] = shown.filter((text) => fullKey.test(text));
  t.deepEqual(others, []);
  t.is(shown.filter((text) => text === masked(key)).length, 99);
  t.is((await keys.list('mint-at-once')).length, 1);
  await works(t, keys, key);
}

async function rotatesAtOnce(t: ExecutionContext, keys: KeyClient): Promise<void> {
  const old = await keys.newKey('rotate-at-once');
  const answers = await Promise.all(Array.from({ length: 50 }, () => keys.rotate('rotate-at-once', old)));
  const [winner, ...others] = answers.filter(({ status }) => status === 200);
  t.deepEqual(others, []);
  const refused = answers.filter(({ status }) => status !== 200);
  t.is(refused.length, 49);
  for (const answer of refused) isRefused(t, answer);
  const listed = await keys.list('rotate-at-once');
  t.deepEqual(
    listed.map(({ state }) => state),
    ['active', 'rotated'],
  );
  await works(t, keys, String(winner?.body.key));
  await isDead(t, keys, old);
}

async function racesRotateAndRevoke(t: ExecutionContext, keys: KeyClient): Promise<void> {
  for (let round = 0; round < 20; round++) {
    const account = `race-${round}`;
    const old = await keys.newKey(account);
    const early = round % 2 === 0 ? keys.revoke(account, old) : undefined;
    const [rotated, revoked] = await Promise.all([keys.rotate(account, old), early ?? keys.revoke(account, old)]);
    t.deepEqual([rotated.status, revoked.status].sort(), [200, 401]);
    await isDead(t, keys, old);
    const states = (await keys.list(account)).map(({ state }) => state);
    if (rotated.status === 200) {
      t.deepEqual(states, ['active', 'rotated']);
      await works(t, keys, String(rotated.body.key));
    } else {
      t.deepEqual(states, ['revoked']);
    }
  }
}

async function listsTheLast(t: ExecutionContext, keys: KeyClient): Promise<void> {
  let key = await keys.newKey('many');
  for (let count = 0; count < 103; count++) key = String((await keys.rotate('many', key)).body.key);
  const listed = await keys.list('many');
  t.is(listed.length, 100);
  t.is(listed[0]?.key, masked(key));
  const ids = listed.map(({ id }) => id);
  t.deepEqual(ids, ids.toSorted().reverse());
}

async function mintsGuests(t: ExecutionContext, keys: KeyClient): Promise<void> {
  const first = await keys.guest('device-of-ann');
  t.is(first.status, 200);
  t.is(first.headers.get('cache-control'), 'no-store');
  t.deepEqual(Object.keys(first.body).sort(), ['key', 'plan', 'rate_limit_per_day']);
  t.like(first.body, { plan: guestPlan, rate_limit_per_day: 50 });
  t.regex(String(first.body.key), fullKey);
  t.deepEqual((await keys.guest('device-of-ann')).body, first.body);
  t.not((await keys.guest('device-of-bob')).body.key, first.body.key);
  await works(t, keys, String(first.body.key));

  const atOnce = await Promise.all(Array.from({ length: 30 }, () => keys.guest('device-of-carl')));
  t.is(new Set(atOnce.map(({ body }) => body.key)).size, 1);
  await works(t, keys, String(atOnce[0]?.body.key));
}

async function limitsGuests(t: ExecutionContext, keys: KeyClient): Promise<void> {
  const key = String((await keys.guest('device-of-dave')).body.key);
  const { body } = await keys.models(key);
  t.deepEqual(
    (body.data as { id: string }[]).map(({ id }) => id), // a response of the service itself
    ['small-chat'],
  );
  t.like(await keys.infer(key, 'medium-chat'), { status: 429, code: 'rate_limit_exceeded', type: 'plan_limit' });
  isRefused(t, await keys.rotate('guest-thief', key));
}

async function changesPlan(t: ExecutionContext, keys: KeyClient): Promise<void> {
  const key = await keys.newKey('upgrade');
  t.like(await keys.infer(key, 'large-chat'), { status: 429, type: 'plan_limit' });
  const changed = await keys.change('user:upgrade', { plan: 'pro' });
  t.is(changed.status, 200);
  t.like(changed.body, { account: 'user:upgrade', plan: 'pro', suspended: false });
  t.is((await keys.infer(key, 'large-chat')).status, 200);
  t.is((await keys.mint('upgrade')).body.plan, 'pro');
  await keys.change('user:upgrade', { plan: 'free' });
  t.like(await keys.infer(key, 'large-chat'), { status: 429, type: 'plan_limit' });
}

async function suspendsAccount(t: ExecutionContext, keys: KeyClient): Promise<void> {
  const key = await keys.newKey('suspend');
  await works(t, keys, key);
  t.like((await keys.change('user:suspend', { suspended: true })).body, { suspended: true });
  const bearer = await keys.token('suspend');
  const refused = [
    await keys.models(key),
    await keys.send('GET', '/v1/models', { bearer }),
    await keys.send('GET', '/billing/quota', { bearer: key }),
    await keys.send('GET', '/v1/keys/developer', { bearer }),
    await keys.send('POST', '/v1/chat/completions', { bearer: key, body: 'not JSON' }),
    await keys.mint('suspend'),
    await keys.rotate('suspend', key),
    await keys.revoke('suspend', key),
  ];
  for (const { status, body } of refused) {
    t.deepEqual([status, body], [403, { error: 'This account is suspended.', code: 'FORBIDDEN' }]);
  }
  t.like(await keys.infer(key), { status: 403, code: 'FORBIDDEN' });
  t.like(await keys.infer(key, 'large-chat'), { status: 403, code: 'FORBIDDEN' });
  await keys.change('user:suspend', { suspended: false });
  await works(t, keys, key);
}

async function suspendsKeyless(t: ExecutionContext, keys: KeyClient): Promise<void> {
  const bearer = await keys.token('keyless');
  t.is((await keys.send('GET', '/v1/models', { bearer })).status, 200);
  t.is(
    (await keys.change('user:keyless', { suspended: false })).status,
    404,
    'a change to the current value is no change',
  );
  t.is((await keys.account('user:keyless')).status, 404);
  t.like((await keys.change('user:keyless', { suspended: true })).body, { plan: 'free', suspended: true, keys: [] });
  t.is((await keys.send('GET', '/v1/models', { bearer })).status, 403);
  t.is((await keys.mint('keyless')).status, 403);
  await keys.change('user:keyless', { suspended: false, plan: 'pro' });
  t.is((await keys.mint('keyless')).body.plan, 'pro');
  t.is((await keys.change('device:never-seen', { suspended: true })).status, 404);
  t.is((await keys.change('keyless', { suspended: true })).status, 404);
}

async function suspendsDevice(t: ExecutionContext, keys: KeyClient): Promise<void> {
  const id = 'device-of-eve!';
  const key = String((await keys.guest(id)).body.key);
  const device = await deviceOf(id);
  t.like((await keys.account(device)).body, { account: device, plan: guestPlan, suspended: false });
  await keys.change(device, { suspended: true });
  t.like(await keys.infer(key), { status: 403, code: 'FORBIDDEN' });
  t.like(await keys.guest(id), { status: 403, body: { code: 'FORBIDDEN' } });
  await keys.change(device, { suspended: false });
  await works(t, keys, key);
  t.is((await keys.guest(id)).body.key, key);
}

/** The name that operators use: `device:` and the SHA-256 of the id. */
async function deviceOf(id: string): Promise<string> {
  const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(id));
  return `device:${Buffer.from(digest).toString('hex')}`;
}

async function audits(t: ExecutionContext, keys: KeyClient): Promise<void> {
  const key = await keys.newKey('audit');
  await keys.rotate('audit', key);
  await keys.change('user:audit', { plan: 'pro' });
  await keys.change('user:audit', { plan: 'pro', suspended: false });
  await keys.change('user:audit', { suspended: true, plan: 'free' });
  const { status, body } = await keys.account('user:audit');
  t.is(status, 200);
  const fields = ['account', 'batches', 'changes', 'createdAt', 'keys', 'overageEnabled', 'plan', 'suspended', 'topUp'];
  t.deepEqual(Object.keys(body).sort(), fields);
  const changes = body.changes as { at: string; by: string }[]; // a response of the service itself
  const [newest, older, rotation, mint, ...none] = changes;
  t.deepEqual(none, []);
  t.like(newest, { by: 'user:operator', plan: { from: 'pro', to: 'free' }, suspended: true });
  t.like(older, { by: 'user:operator', plan: { from: 'free', to: 'pro' } });
  t.false('suspended' in (older ?? {}));
  const [rotated, minted] = (body.keys as { id: string }[]).map(({ id }) => id);
  t.like(rotation, { by: 'user:audit', keyRotated: { from: minted, to: rotated } });
  t.like(mint, { by: 'user:audit', keyMinted: minted });
  for (const { at } of changes) t.true(Math.abs(Date.now() - Date.parse(at)) < 600_000);
  t.notRegex(JSON.stringify(body), /svc_[0-9A-Za-z]{7}/);
}
