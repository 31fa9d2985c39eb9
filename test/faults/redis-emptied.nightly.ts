import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import test from 'ava';
import { Redis } from 'ioredis';
import { openStore } from '../../shared/process/open-store.ts';
import { partitionCount } from '../../shared/redis/keys.ts';
import { createReadOutbox } from '../../workers/usage/outbox.ts';
import { type Stack, startStack } from '../stack/stack.ts';
import { chat } from '../support/chat.ts';
import { faultTest } from '../support/faults/fault-test.ts';
import { createKeyClient } from '../support/key-client.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const plans = { 'small-month': { tokens_per_month: 1_000, model_tiers: ['guest', 'standard'] } };
const body = { model: 'small-chat', messages: [{ role: 'user', content: 'Hello' }], max_tokens: 50 };
const month = () => new Date().toISOString().slice(0, 7);

faultTest(
  test,
  {
    id: '12a',
    done: 'Redis is emptied (FLUSHALL) during streams',
    promised:
      'no account gets a free month or a false 402; requests in flight are charged once; reconcile finds no drift',
  },
  async (t, see) => {
    t.timeout(180_000);
    await using stack = await startStack({ ingresses: 2, plans });
    const keys = createKeyClient(stack);
    await using parts = new AsyncDisposableStack();
    const redis = parts.adopt(new Redis(stack.redisUrl), (connection) => connection.disconnect());
    const databaseUrl = `sqlite:${stack.directory}/store.sqlite`;
    const store = parts.use(await openStore(databaseUrl, { log: { warn() {} } }));

    async function openAccount(name: string, settings: object) {
      const key = await keys.newKey(name);
      await keys.change(`user:${name}`, settings);
      let turn = 0;
      const url = () => stack.ingresses[turn++ % 2]?.url ?? '';
      const client = createKeyClient(stack, { url });
      const quota = async () => (await client.send('GET', '/billing/quota', { bearer: key })).body;
      let answered = 0;
      return {
        name,
        key,
        quota,
        answered: () => answered,
        async ask(n = 1) {
          const answer = await client.send('POST', '/v1/chat/completions', { bearer: key, body: { ...body, n } });
          if (answer.status === 200) answered += 1;
          return answer;
        },
        async useUpTo(tokens: number) {
          while (Number((await quota()).used) < tokens) t.is((await this.ask(4)).status, 200);
        },
      };
    }

    const near = await openAccount('near', { plan: 'small-month' });
    const spent = await openAccount('spent', { plan: 'small-month' });
    const over = await openAccount('over', { plan: 'small-month', overageEnabled: true });
    const topped = await openAccount('topped', { plan: 'small-month', topUp: { id: 'one', tokens: 500 } });
    const free = await openAccount('free', { plan: 'pro' });
    const streaming = await openAccount('streaming', { plan: 'pro' });
    const accounts = [near, spent, over, topped, free, streaming];
    await near.useUpTo(700);
    await spent.useUpTo(1_000);
    t.is((await spent.ask()).status, 402);
    await over.useUpTo(1_300);
    await topped.useUpTo(1_100);
    await free.useUpTo(100);
    await streaming.useUpTo(100);
    t.true(Number((await near.quota()).used) < 1_000);
    t.true(Number((await over.quota()).overageUsed) > 0);
    await untilDrained(redis);

    for (const server of stack.modelServers) server.fail({ endless: true, chunkMs: 20 });
    const before = await Promise.all(accounts.map(({ quota }) => quota()));
    const streams = await Promise.all(
      [0, 1, 0, 1].map((ingress) =>
        chat({ url: stack.ingresses[ingress]?.url ?? '', key: streaming.key, question: 'Go on', stream: true }),
      ),
    );
    const readers = streams.map((response) => response.body?.getReader());
    for (const reader of readers) t.false((await reader?.read())?.done);
    t.true(Number((await streaming.quota()).reserved) > 0);

    await redis.flushall();

    for (const [index, { name, quota }] of accounts.entries()) {
      if (name === 'streaming') continue;
      t.deepEqual(await quota(), before[index], name);
    }
    t.is((await spent.ask()).status, 402);
    for (const reader of readers) t.regex(await restOf(reader), /"error"/);
    for (const server of stack.modelServers) server.heal();
    await until(async () => (await free.ask()).status === 200); // until then 503: workers find their queues again

    for (const { name, ask } of [near, over, topped]) t.is((await ask()).status, 200, name);
    t.is((await spent.ask()).status, 402);
    await near.useUpTo(1_000);
    t.is((await near.ask()).status, 402);

    const requestIds = streams.map(({ headers }) => headers.get('x-request-id') ?? '');
    await until(async () => {
      const records = await Promise.all(requestIds.map((id) => store.usage.findUsageRecord(id)));
      return records.every((record) => record !== undefined);
    });
    await untilDrained(redis);
    for (const account of accounts) {
      const sum = await store.usage.findUsageSum(`user:${account.name}`, month());
      const inFlight = account === streaming ? requestIds.length : 0;
      t.is(sum?.total.requests, account.answered() + inFlight, account.name);
      t.like(await account.quota(), {
        used: sum?.total.chargedTokens,
        reserved: 0,
        overageUsed: sum?.total.overageTokens,
      });
    }
    const records = await Promise.all(requestIds.map((id) => store.usage.findUsageRecord(id)));
    for (const record of records) {
      t.is(record?.account, 'user:streaming');
      t.true(
        record?.outcome === 'failed' || record?.outcome === 'cancelled',
        'by the ingress, or by the worker that it notified',
      );
      t.true((record?.completionTokens ?? 0) > 0, 'delivered output is charged');
    }

    const reconciled = await reconcile(stack, databaseUrl);
    t.deepEqual([reconciled.code, reconciled.out.trimEnd().split('\n').at(-1)], [0, 'drift: 0'], reconciled.out);
    t.regex(reconciled.out, /^accounts checked: 6$/m);
    see(
      `${accounts.length} months as before, ${records.length} streams charged once; ${reconciled.out.trimEnd().split('\n').at(-1)}`,
    );
  },
);

async function untilDrained(redis: Redis): Promise<void> {
  const readOutbox = createReadOutbox(redis);
  const partitions = Array.from({ length: partitionCount }, (_, partition) => partition);
  await until(async () => {
    const outboxes = await Promise.all(partitions.map(readOutbox));
    return outboxes.every(({ waitingMs }) => waitingMs === 0);
  });
}

/** Waits until AVA's own timeout. */
async function until(claim: () => Promise<boolean>): Promise<void> {
  while (!(await claim())) await sleep(50);
}

async function restOf(reader: ReadableStreamDefaultReader<Uint8Array> | undefined): Promise<string> {
  const decoder = new TextDecoder();
  let rest = '';
  for (;;) {
    const { done, value } = (await reader?.read()) ?? { done: true };
    if (done) return rest;
    rest += decoder.decode(value, { stream: true });
  }
}

async function reconcile({ directory, redisUrl }: Stack, databaseUrl: string) {
  const env = { REDIS_URL: redisUrl, DATABASE_URL: databaseUrl, PLAN_FILE: `${directory}/plans.yaml` };
  const child = spawn(process.execPath, ['workers/usage/reconcile-main.ts'], {
    cwd: root,
    env,
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  const [out, [code]] = await Promise.all([text(child.stdout), once(child, 'exit')]);
  return { out, code };
}
