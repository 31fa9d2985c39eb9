import { randomUUID } from 'node:crypto';
import test from 'ava';
import { type Stack, startStack } from '../stack/stack.ts';
import { createKeyClient, type KeyClient } from '../support/key-client.ts';

/** The claims of the page about several regions, with two cells that share an identity provider. */

const plans = { 'two-a-minute': { requests_per_minute: 2, model_tiers: ['guest', 'standard'] } };
const parts = new AsyncDisposableStack();
let cells: Record<'eu' | 'us', { stack: Stack; keys: KeyClient }>;

test.before(async () => {
  const guestSecret = { GUEST_KEY_SECRET: `${randomUUID()}${randomUUID()}` };
  const eu = parts.use(await startStack({ plans, env: guestSecret }));
  const us = parts.use(await startStack({ plans, env: { ...guestSecret, AUTH_URL: eu.identity.issuer } }));
  const keysOf = (stack: Stack) => createKeyClient({ ingresses: stack.ingresses, identity: eu.identity });
  cells = { eu: { stack: eu, keys: keysOf(eu) }, us: { stack: us, keys: keysOf(us) } };
});

test.after.always(() => parts.disposeAsync());

test('a key is valid in its own cell, and 401 in another', async (t) => {
  const { eu, us } = cells;
  const key = await eu.keys.newKey('alice');
  t.is((await eu.keys.infer(key)).status, 200);
  t.like(await us.keys.infer(key), { status: 401, code: 'INVALID_KEY' });
});

test('a sign-in token is refused by a cell with another BASE_URL, and makes a second account in one with the same', async (t) => {
  const { eu, us } = cells;
  const [here, there] = [await eu.keys.mint('bob'), await us.keys.mint('bob')];
  t.deepEqual([here.status, there.status], [200, 200]);
  t.not(here.body.key, there.body.key);
  const { url } = await us.stack.startIngress({ BASE_URL: 'https://us.api.example.com' });
  const other = createKeyClient({ ingresses: [{ url }], identity: eu.stack.identity });
  t.like(await other.mint('bob'), { status: 401, body: { code: 'INVALID_TOKEN' } });
});

test('with the same secret a device has the same key in each cell, once it has asked for it there', async (t) => {
  const { eu, us } = cells;
  const device = `device-${randomUUID()}`;
  const key = String((await eu.keys.guest(device)).body.key);
  t.like(await us.keys.infer(key), { status: 401, code: 'INVALID_KEY' });
  t.is((await us.keys.guest(device)).body.key, key);
  t.is((await eu.keys.infer(key)).status, 200);
  t.is((await us.keys.infer(key)).status, 200);
});

test('each cell counts the limits of an account for itself', async (t) => {
  for (const { keys } of Object.values(cells)) {
    await keys.change('user:carol', { plan: 'two-a-minute' });
    const key = await keys.newKey('carol');
    const statuses = [];
    for (let request = 0; request < 4; request++) statuses.push((await keys.infer(key)).status);
    t.deepEqual(statuses, [200, 200, 429, 429]);
  }
});

test('an account that moves is served by one cell at a time, and keeps its settings', async (t) => {
  const { eu, us } = cells;
  const settings = { plan: 'two-a-minute', overageEnabled: true, topUp: { id: 'invoice-1', tokens: 500 } };
  await eu.keys.change('user:dave', settings);
  const old = await eu.keys.newKey('dave');
  t.is((await eu.keys.change('user:dave', { suspended: true, reason: 'It moves to another region.' })).status, 200);
  t.is((await eu.keys.infer(old)).status, 403);
  const { body } = await eu.keys.account('user:dave');
  t.like(body, { plan: 'two-a-minute', overageEnabled: true, topUp: 500 });
  const { plan, overageEnabled, topUp } = body;
  const moved = { plan, overageEnabled, topUp: { id: 'moved', tokens: topUp } };
  t.like(await us.keys.change('user:dave', moved), { status: 200, body: { plan, overageEnabled, topUp } });
  t.is((await us.keys.infer(old)).status, 401, 'its old key does not move');
  t.is((await us.keys.infer(await us.keys.newKey('dave'))).status, 200);
  t.is((await eu.keys.infer(old)).status, 403);
});
