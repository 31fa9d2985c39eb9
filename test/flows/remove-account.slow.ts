import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import test from 'ava';
import { decodeJwt } from 'jose';
import { openStore } from '../../shared/process/open-store.ts';
import { batchOf, fileOf } from '../shared/store/batch-records.ts';
import { endpointOf, webhooksOf } from '../shared/store/webhook-records.ts';
import { type Stack, startStack } from '../stack/stack.ts';
import { linesOf, openBatchClient } from '../support/batch-client.ts';
import { type Answer, createKeyClient, type KeyClient } from '../support/key-client.ts';
import { openRedis } from '../support/open-redis.ts';
import { recordedLog } from '../support/recorded-log.ts';
import { contentsOf } from '../support/redis-contents.ts';
import { type SignToken, signerOf } from '../support/sign-tokens.ts';

/** The lines of a batch that waits in a pool without workers end only because it is cancelled. */
const models = { 'no-worker': { tier: 'guest', pool: 'unserved', backends: ['onprem-a'] } };
const logged: string[] = [];
let stack: Stack;
let onA: KeyClient;
let onB: KeyClient;
let sign: SignToken;
const parts = new AsyncDisposableStack();

test.before(async () => {
  stack = parts.use(
    await startStack({
      ...{ ingresses: 2, models, webhooks: true },
      env: {
        POOLS: 'default',
        AUTH_NAME_CLAIM: 'profile.name',
        AUTH_OPERATORS: 'groups=Service Operators',
        LOG_LEVEL: 'debug',
      },
      onLine: (_, line) => void logged.push(JSON.stringify(line)),
    }),
  );
  onA = createKeyClient(stack);
  onB = createKeyClient(stack, { url: () => stack.ingresses[1]?.url ?? '' });
  sign = await signerOf(join(stack.directory, 'identity'));
});
test.after.always(() => parts.disposeAsync());

function tokenOf(sub: string, name: string, groups: string[] = []): Promise<string> {
  const now = Math.floor(Date.now() / 1_000);
  const ours = { iss: stack.identity.issuer, aud: stack.baseUrl, iat: now, exp: now + 600 };
  return sign({ ...ours, sub, profile: { name }, groups });
}

const olga = () => tokenOf('olga', 'Olga Oregano', ['Service Operators']);

async function operate(method: string, path: string, body?: object): Promise<Answer> {
  return onA.send(method, path, { bearer: await olga(), ...(body && { body }) });
}

const dataOf = ({ body }: Answer) => body.data as Record<string, unknown>[]; // a list of the service itself

test.serial(
  'operators see the display name beside the account, and it is in no record, log, metric or queue',
  async (t) => {
    const token = await tokenOf('carol', 'Carol\n Coriander');
    const { body } = await onA.send('POST', '/v1/keys/developer', { bearer: token, body: {} });
    t.is((await onA.infer(String(body.key))).status, 200);
    await operate('PATCH', '/admin/accounts/user:carol', { overageEnabled: true, reason: 'why' });
    await operate('POST', '/admin/fleet/backends/onprem-a/pause', { minutes: 1 });
    await operate('DELETE', '/admin/fleet/backends/onprem-a/pause');
    const name = 'Carol Coriander';
    t.like((await operate('GET', '/admin/accounts/user:carol')).body, { account: 'user:carol', name });
    const listed = dataOf(await operate('GET', '/admin/accounts?prefix=user:c'));
    t.like(listed, [{ account: 'user:carol', name }]);
    for (const text of ['carol co', 'CORI', 'user:carol']) {
      const found = dataOf(await operate('GET', `/admin/find?text=${encodeURIComponent(text)}`));
      t.deepEqual(found, [{ kind: 'account', id: 'user:carol', account: 'user:carol', name }], text);
    }
    const [record] = dataOf(await operate('GET', '/admin/audit?account=user:carol'));
    t.like(record, { actor: 'user:olga', actor_name: 'Olga Oregano', account: 'user:carol', account_name: name });
    while (dataOf(await operate('GET', '/admin/usage?group_by=account')).length === 0) await sleep(50);
    t.like(dataOf(await operate('GET', '/admin/usage?group_by=account')), [{ account: 'user:carol', name }]);

    const renamed = await tokenOf('carol', 'Carol Cumin');
    await onB.send('GET', '/v1/keys', { bearer: renamed });
    const nameNow = async () => (await operate('GET', '/admin/accounts/user:carol')).body.name;
    while ((await nameNow()) === name) await sleep(20); // it is written beside the request
    t.is(await nameNow(), 'Carol Cumin');

    const redis = openRedis(stack.redisUrl);
    const metrics = await Promise.all(
      [...stack.ingresses, ...stack.workers].map(async ({ operationsUrl }) =>
        (await fetch(`${operationsUrl}/metrics`)).text(),
      ),
    );
    t.notRegex([await contentsOf(redis), ...metrics, ...logged].join('\n'), /coriander|cumin|oregano/i);
    redis.disconnect();
    t.true(
      logged.some((line) => line.includes('user:carol')),
      'the log has the account',
    );
  },
);

test.serial('a token without the group is not one of an operator, and the service says so', async (t) => {
  const bearer = await sign({
    ...decodeJwt(await tokenOf('carol', 'Carol')),
    scope: 'svc:admin',
  });
  t.is((await onA.send('GET', '/admin/plans', { bearer })).status, 403);
  t.like((await onA.send('GET', '/v1/account', { bearer })).body, { account: 'user:carol', operator: false });
  t.like((await onA.send('GET', '/v1/account', { bearer: await olga() })).body, {
    account: 'user:olga',
    operator: true,
  });
});

test.serial(
  'a removed account loses its keys on every ingress at once, and its batches and files once these have ended',
  async (t) => {
    const key = await onA.newKey('dave');
    for (const at of [onA, onB]) t.is((await at.models(key)).status, 200);
    const batches = await openBatchClient(stack, 'dave', key);
    const ended = await batches.create(linesOf(2));
    await batches.ended(ended.id);
    const { id } = await batches.create(linesOf(5, { model: 'no-worker' }));
    await batches.until(id, ({ status }) => status === 'in_progress');

    const remove = () => operate('DELETE', '/admin/accounts/user:dave?reason=left');
    t.deepEqual((await remove()).body, { object: 'account', account: 'user:dave', deleted: false });
    for (const at of [onB, onA]) t.is((await at.models(key)).status, 401);
    const account = () => operate('GET', '/admin/accounts/user:dave');
    while ((await account()).status !== 404) await sleep(100); // a worker completes it, without another call
    t.is((await operate('GET', `/admin/batches/${id}`)).status, 404);
    t.is((await operate('GET', `/admin/batches/${ended.id}`)).status, 404);
    const token = await onA.token('dave');
    t.deepEqual(dataOf(await onA.send('GET', '/v1/files', { bearer: token })), []);
    t.deepEqual(dataOf(await operate('GET', '/admin/accounts?prefix=user:dave')), []);
    const removals = async () => dataOf(await operate('GET', '/admin/audit?account=user:dave&kind=account'));
    t.like(await removals(), {
      length: 1,
      0: { change: { accountRemoved: true }, reason: 'left', actor: 'user:olga' },
    });
    await using store = await openStore(`sqlite:${stack.directory}/store.sqlite`, recordedLog());
    const before = await store.accounts.findAccount('user:dave');
    t.deepEqual((await remove()).body, { object: 'account', account: 'user:dave', deleted: true });
    t.is((await removals()).length, 1);
    t.deepEqual(await store.accounts.findAccount('user:dave'), before, 'a repeat changes nothing');

    // An ingress that died has left these, without a change of the account.
    const left = { account: 'user:dave', createdAt: new Date(0) };
    const webhooks = webhooksOf('user:dave', [endpointOf({ createdAt: left.createdAt })]);
    const over = { ...left, state: 'completed', open: false } as const;
    const stores = {
      webhook: () => store.webhooks.changeWebhooks('user:dave', () => ({ result: true, next: webhooks })),
      file: () => store.batches.insertFile(fileOf(left)),
      batch: () => store.batches.insertBatch(batchOf(over)),
    };
    for (const [name, insert] of Object.entries(stores)) {
      await insert();
      t.true((await remove()).body.deleted, name);
      t.deepEqual((await store.webhooks.findWebhooks('user:dave'))?.endpoints ?? [], [], name);
      t.deepEqual(await store.batches.listFiles('user:dave', { limit: 1 }), [], name);
      t.deepEqual(await store.batches.listBatches('user:dave', { limit: 1 }), [], name);
      t.is((await account()).status, 404, name);
    }
    const used = await operate('GET', '/admin/accounts/user:dave/requests');
    t.true(dataOf(used).length > 0, 'its records of usage stay');

    const again = await onB.newKey('dave');
    t.is((await onA.infer(again)).status, 200);
    t.is((await onA.models(key)).status, 401, 'the old key stays dead');
    t.like((await account()).body, { plan: 'free', keys: [{ state: 'active' }] });
  },
);

test.serial('an account that has used only sign-in tokens loses its files, with a record', async (t) => {
  const token = await onA.token('erin');
  const { client, upload } = await openBatchClient(stack, 'erin', token);
  await upload(linesOf(1));
  const removed = await operate('DELETE', '/admin/accounts/user:erin');
  t.deepEqual(removed.body, { object: 'account', account: 'user:erin', deleted: true });
  t.deepEqual((await client.files.list()).data, []);
  const records = dataOf(await operate('GET', '/admin/audit?account=user:erin'));
  t.like(records, { length: 1, 0: { change: { accountRemoved: true }, reason: null } });
  t.is((await operate('GET', '/admin/accounts/user:erin')).status, 404);
});

test.serial('a removed account is seen again once it has a file, a batch or a webhook, which stay', async (t) => {
  const bearer = await onA.token('fay');
  const account = () => operate('GET', '/admin/accounts/user:fay');
  const remove = async () => (await operate('DELETE', '/admin/accounts/user:fay')).body.deleted;
  const { client, upload, create } = await openBatchClient(stack, 'fay', bearer);
  const webhook = { url: 'http://localhost:9/events', events: ['batch.completed'] };
  const uses = {
    file: () => upload(linesOf(1)),
    batch: () => create(linesOf(1, { model: 'no-worker' })),
    webhook: async () => t.is((await onA.send('POST', '/v1/webhooks', { bearer, body: webhook })).status, 200),
  };
  await uses.file();
  for (const [name, use] of Object.entries(uses)) {
    while (!(await remove())) await sleep(100);
    t.is((await account()).status, 404, name);
    await use();
    t.is((await account()).status, 200, name);
    t.is(dataOf(await operate('GET', '/admin/accounts?prefix=user:fay')).length, 1, name);
    t.is((await client.files.list()).data.length, name === 'webhook' ? 0 : 1, name);
  }
});

test.serial('an account that is suspended while it is removed loses all it has, and stays suspended', async (t) => {
  const key = await onA.newKey('gina');
  const batches = await openBatchClient(stack, 'gina', key);
  const { id } = await batches.create(linesOf(5, { model: 'no-worker' }));
  await batches.until(id, ({ status }) => status === 'in_progress');
  t.like((await operate('DELETE', '/admin/accounts/user:gina')).body, { deleted: false });
  t.is((await operate('PATCH', '/admin/accounts/user:gina', { suspended: true })).status, 200);
  while ((await operate('GET', `/admin/batches/${id}`)).status !== 404) await sleep(100);
  t.like((await operate('GET', '/admin/accounts/user:gina')).body, { suspended: true, keys: [] });
  while ((await operate('DELETE', '/admin/accounts/user:gina')).body.deleted !== true) await sleep(100);
  t.is((await onA.send('GET', '/v1/files', { bearer: await onA.token('gina') })).status, 403);
});

test.serial('a removed device loses its key on every ingress, and gets it again with its next call', async (t) => {
  const mint = async () => String((await onA.guest('device-of-frank')).body.key);
  const key = await mint();
  t.is((await onB.models(key)).status, 200);
  const account = `device:${createHash('sha256').update('device-of-frank').digest('hex')}`;
  t.like((await operate('DELETE', `/admin/accounts/${account}`)).body, { account, deleted: true });
  for (const at of [onA, onB]) t.is((await at.models(key)).status, 401);
  t.is(await mint(), key);
  for (const at of [onA, onB]) t.is((await at.models(key)).status, 200);
});
