import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ExecutionContext } from 'ava';
import test from 'ava';
import { auditRecordListSchema } from '../../ingress/routes/audit.ts';
import { hashTopUpCode, makeTopUpCode } from '../../ingress/routes/top-up-codes.ts';
import { openStore } from '../../shared/process/open-store.ts';
import type { Store } from '../../shared/store/records/store.ts';
import { claimCode } from '../../shared/store/records/top-up-codes.ts';
import { topUpCodeOf } from '../shared/store/top-up-code-records.ts';
import { type Stack, startStack } from '../stack/stack.ts';
import { createKeyClient, type KeyClient } from '../support/key-client.ts';
import { openRedis } from '../support/open-redis.ts';
import { contentsOf } from '../support/redis-contents.ts';
import { soonEnded } from '../support/soon-ended.ts';
import { createTopUpClient } from '../support/top-up-client.ts';

const tiers = { model_tiers: ['guest', 'standard'] };
const plans = {
  'one-token': { tokens_per_month: 1, ...tiers },
  bounded: { tokens_per_month: 1, overage_tokens_per_month: 1, ...tiers },
  'by-operator': { tokens_per_month: 1, overage: 'operator', ...tiers },
};

let stack: Stack;
let store: Store;
/** At two ingresses. */
let keys: [KeyClient, KeyClient];
let clients: [ReturnType<typeof createTopUpClient>, ReturnType<typeof createTopUpClient>];
const parts = new AsyncDisposableStack();

test.before(async () => {
  stack = parts.use(await startStack({ ingresses: 2, plans }));
  store = parts.use(await openStore(`sqlite:${stack.directory}/store.sqlite`, { log: { warn() {} } }));
  const at = (index: number) => createKeyClient(stack, { url: () => stack.ingresses[index]?.url ?? '' });
  keys = [at(0), at(1)];
  clients = [createTopUpClient(keys[0]), createTopUpClient(keys[1])];
});

test.after.always(() => parts.disposeAsync());

/** A key of an account on this plan, whose month is used up. */
async function spentOn(account: string, plan: keyof typeof plans): Promise<string> {
  const key = await keys[0].newKey(account);
  await keys[0].change(`user:${account}`, { plan });
  for (const client of keys) await client.infer(key);
  await assertStatuses(account, key, 402);
  return key;
}

/** Asks at both ingresses: every process has to know of the change. */
async function assertStatuses(account: string, key: string, status: number): Promise<void> {
  for (const client of keys) {
    const answer = await client.infer(key);
    if (answer.status !== status) throw new Error(`${account}: ${JSON.stringify(answer)} instead of ${status}`);
  }
}

async function trailOf(account: string) {
  const bearer = await keys[0].token('olga', true);
  const { body } = await keys[0].send('GET', `/admin/audit?account=user:${account}`, { bearer });
  return auditRecordListSchema.parse(body).data.filter(({ kind }) => kind !== 'key');
}

async function codeOf(tokens: number, more: { expires_at?: number; note?: string } = {}) {
  const [created] = await clients[0].create({ tokens, ...more });
  if (created === undefined) throw new Error('a code was created');
  return created;
}

test('an account turns overage on and off, which applies to its next request at every ingress', async (t) => {
  const key = await spentOn('switcher', 'one-token');
  const before = await trailOf('switcher');
  const on = await clients[0].setOverage('switcher', true);
  t.like(on, { status: 200, body: { plan: 'one-token', overageEnabled: true, overageLimit: null } });
  await assertStatuses('switcher', key, 200);
  t.like((await clients[1].quota('switcher')).body, { overageEnabled: true });
  t.is((await clients[1].setOverage('switcher', true)).status, 200, 'again');
  t.like(await clients[1].setOverage('switcher', false), { status: 200, body: { overageEnabled: false } });
  await assertStatuses('switcher', key, 402);

  const made = { actor: 'user:switcher', account: 'user:switcher', address: '127.0.0.1', reason: null };
  const trail = await trailOf('switcher');
  t.like(trail.slice(0, trail.length - before.length), {
    length: 2,
    0: { ...made, change: { overageEnabled: false } },
    1: { ...made, change: { overageEnabled: true } },
  });
  const requestId = on.headers.get('x-request-id');
  const lines = stack.started().flatMap(({ logs }) => logs.filter((line) => line.requestId === requestId));
  t.true(lines.some(({ msg, audit }) => msg === 'an account was changed' && audit !== undefined));
});

test('overage has the bound of the plan, and a top-up lifts it', async (t) => {
  const key = await spentOn('bounded', 'bounded');
  const { body } = await clients[0].setOverage('bounded', true);
  t.like(body, { overageLimit: 1, overageEnabled: true });
  await assertStatuses('bounded', key, 402);
  const refused = await keys[0].send('POST', '/v1/chat/completions', {
    bearer: key,
    body: { model: 'small-chat', messages: [{ role: 'user', content: 'Hello' }] },
  });
  t.like(refused.body, { error: { code: 'quota_exceeded', overageEnabled: true } });
  const { message } = refused.body.error as { message: string }; // a response of the service itself
  t.regex(
    message,
    /^The monthly quota is used up, and so are 1 tokens of overage\. It resets on \d{4}-\d\d-01\. A top-up/,
  );
  await clients[0].redeem('bounded', (await codeOf(100_000)).code);
  await assertStatuses('bounded', key, 200);
});

test('on a plan that leaves overage to operators, only they turn it on', async (t) => {
  const key = await spentOn('asking', 'by-operator');
  t.like(await clients[0].setOverage('asking', true), { status: 403, body: { code: 'FORBIDDEN' } });
  t.is((await trailOf('asking')).length, 1, 'its plan');
  await keys[0].change('user:asking', { overageEnabled: true });
  await assertStatuses('asking', key, 200);
  await keys[0].change('user:asking', { plan: 'one-token' });
  t.is((await clients[1].setOverage('asking', false)).status, 200, 'the plan of now decides');
});

test('a code lifts a used-up month at every ingress with the next request, once', async (t) => {
  const key = await spentOn('buyer', 'one-token');
  const { id, code } = await codeOf(50_000, { note: 'Spring sale' });
  const redeemed = await clients[0].redeem('buyer', code.toLowerCase().replaceAll('-', ' '));
  t.like(redeemed, { status: 200, body: { plan: 'one-token', topUp: 50_000, limit: 50_001, overageEnabled: false } });
  await assertStatuses('buyer', key, 200);
  for (const client of clients) {
    t.like(await client.redeem('buyer', code), { status: 200, body: { topUp: 50_000 } });
    t.like((await client.quota('buyer')).body, { topUp: 50_000, limit: 50_001 });
    t.like(await client.redeem('another-buyer', code), { status: 409, body: { code: 'CONFLICT' } });
  }
  const [newest] = await trailOf('buyer');
  const made = { actor: 'user:buyer', account: 'user:buyer', address: '127.0.0.1', reason: null };
  t.like(newest, { ...made, change: { topUp: { id: `code ${id}`, tokens: 50_000 } } });
  const [listed] = (await clients[0].list('?state=redeemed&limit=100')).filter((one) => one.id === id);
  t.like(listed, { note: 'Spring sale', created_by: 'user:olga', redeemed_by: 'user:buyer', state: 'redeemed' });
  t.true(listed?.applied_at !== null);
  t.like(await clients[0].revoke(id), { status: 409 });
});

test('an account that was never used can redeem a code and turn overage on', async (t) => {
  const { code } = await codeOf(7);
  t.like(await clients[0].redeem('newcomer', code), { status: 200, body: { plan: 'free', topUp: 7 } });
  t.like(await clients[0].setOverage('other-newcomer', true), { status: 200, body: { overageEnabled: true } });
});

test('a suspended account neither redeems a code nor changes its overage', async (t) => {
  const { id, code } = await codeOf(7);
  await keys[0].change('user:suspended', { suspended: true });
  t.like(await clients[1].redeem('suspended', code), { status: 403 });
  t.like(await clients[1].setOverage('suspended', true), { status: 403 });
  t.like(
    (await clients[0].list('?state=unused&limit=100')).find((one) => one.id === id),
    { redeemed_by: null },
  );
});

test('of two accounts that redeem one code at once, at two ingresses, one gets its tokens', async (t) => {
  const codes = await clients[0].create({ tokens: 1_000, count: 20 });
  const accounts = ['rival-a', 'rival-b'] as const;
  let wins = 0;
  for (const { code } of codes) {
    const answers = await Promise.all(accounts.map((account, index) => clients[index]?.redeem(account, code)));
    t.deepEqual(answers.map((answer) => answer?.status).toSorted(), [200, 409]);
    if (answers[0]?.status === 200) wins++;
  }
  const quotas = await Promise.all(accounts.map((account) => clients[0].quota(account)));
  t.deepEqual(
    quotas.map(({ body }) => body.topUp),
    [wins * 1_000, (20 - wins) * 1_000],
  );
});

test('one account that redeems a code many times at once, at two ingresses, gets its tokens once', async (t) => {
  const { id, code } = await codeOf(1_000);
  const answers = await Promise.all(
    Array.from({ length: 20 }, (_, index) => clients[index % 2]?.redeem('eager', code)),
  );
  t.deepEqual([...new Set(answers.map((answer) => answer?.status))], [200]);
  t.like((await clients[0].quota('eager')).body, { topUp: 1_000 });
  t.deepEqual(
    (await trailOf('eager')).map(({ change }) => change.topUp?.id),
    [`code ${id}`],
  );
});

test('a code that is revoked at the same time is redeemed or revoked, never both', async (t) => {
  const codes = await clients[0].create({ tokens: 10, count: 20 });
  let redeemed = 0;
  for (const { id, code } of codes) {
    const [one, other] = await Promise.all([clients[0].redeem('racer', code), clients[1].revoke(id)]);
    t.deepEqual([one.status, other.status].toSorted(), [200, 409]);
    if (one.status === 200) redeemed++;
  }
  t.like((await clients[0].quota('racer')).body, { topUp: redeemed * 10 });
});

test('a revoked code and one that has expired are not redeemed', async (t) => {
  const revoked = await codeOf(10);
  const { made: expiring } = await soonEnded((expires_at) => codeOf(10, { expires_at }));
  t.like(await clients[0].revoke(revoked.id), { status: 200, body: { state: 'revoked', revoked_by: 'user:olga' } });
  t.like(await clients[1].revoke(revoked.id), { status: 200, body: { state: 'revoked' } });
  t.like(await clients[1].redeem('late', revoked.code), { status: 409 });
  while (!(await clients[0].list('?state=expired&limit=100')).some(({ id }) => id === expiring.id));
  t.like(await clients[1].redeem('late', expiring.code), { status: 409, body: { error: 'This code has expired.' } });
  t.like((await clients[0].quota('late')).body, { topUp: 0 });
});

test('unknown codes are looked up ten times a minute for each account', async (t) => {
  const statuses: unknown[] = [];
  for (let sent = 0; sent < 12; sent++) statuses.push((await clients[0].redeem('guesser', makeTopUpCode())).status);
  t.deepEqual(statuses, [...Array.from({ length: 10 }, () => 404), 429, 429]);
  const { code } = await codeOf(10);
  const refused = await clients[0].redeem('guesser', code);
  const { error } = refused.body as { error: { type: string; retry_after_ms: number } }; // a response of the service itself
  t.is(error.type, 'code_failures');
  t.true(error.retry_after_ms > 0 && error.retry_after_ms <= 60_001);
  t.is((await clients[0].redeem('honest', code)).status, 200, 'other accounts are not affected');
});

/** As an ingress leaves it that dies after its claim. */
async function claimAndDie(account: string, tokens: number): Promise<string> {
  const code = makeTopUpCode();
  const inserted = topUpCodeOf({ hash: hashTopUpCode(code), tokens });
  await store.topUpCodes.insertCodes([inserted]);
  const at = new Date(Date.now() - 11_000);
  await store.topUpCodes.changeCode(inserted.id, claimCode({ account: `user:${account}`, at, from: '203.0.113.9' }));
  return code;
}

async function assertCompleted(t: ExecutionContext, account: string, tokens: number): Promise<void> {
  for (const client of clients) t.like((await client.quota(account)).body, { topUp: tokens });
  t.like(await trailOf(account), { length: 1, 0: { actor: `user:${account}`, address: '203.0.113.9' } });
}

test('a code that an ingress has claimed and not applied is applied by a repeat of its account', async (t) => {
  const code = await claimAndDie('repeater', 30);
  t.is((await clients[1].redeem('another-repeater', code)).status, 409);
  t.like(await clients[1].redeem('repeater', code), { status: 200, body: { topUp: 30 } });
  await assertCompleted(t, 'repeater', 30);
});

test('a code that an ingress has claimed and not applied is applied by a worker', async (t) => {
  await claimAndDie('absent', 40);
  await stack.startWorker(); // each looks at its start
  const isApplied = async () =>
    (await clients[0].list('?state=redeemed&limit=100')).some(
      (code) => code.redeemed_by === 'user:absent' && code.applied_at !== null,
    );
  while (!(await isApplied())) await sleep(20);
  await assertCompleted(t, 'absent', 40);
});

test('no log, no key of Redis and no file of the store has a code', async (t) => {
  const [used, unused] = await clients[0].create({ tokens: 5, count: 2 });
  if (used === undefined || unused === undefined) throw new Error('two codes were created');
  await clients[0].redeem('careful', used.code);
  await clients[0].redeem('careful-rival', used.code);
  await keys[0].send('GET', `/billing/top-ups/${unused.code}`);
  const redis = openRedis(stack.redisUrl);
  t.teardown(() => redis.disconnect());
  const logs = JSON.stringify(stack.started().map((child) => child.logs));
  const files = ['store.sqlite', 'store.sqlite-wal'].map((name) =>
    readFileSync(`${stack.directory}/${name}`, 'latin1'),
  );
  const texts = [logs, await contentsOf(redis), ...files];
  t.true(
    texts.some((text) => text.includes(used.id)),
    'the code itself is known there',
  );
  for (const code of [used.code, unused.code]) {
    for (const form of [code, code.replaceAll('-', ''), code.slice('TOPUP-'.length, -6)]) {
      for (const text of texts) t.false(text.includes(form));
    }
  }
});
