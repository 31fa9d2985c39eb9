import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import test from 'ava';
import OpenAI from 'openai';
import { usageSchema } from '../../ingress/usage/usage-report.ts';
import { writeRunningStack } from '../stack/running-stack.ts';
import { type Stack, startStack } from '../stack/stack.ts';
import { startedModels } from '../stack/started-models.ts';
import { createKeyClient } from '../support/key-client.ts';
import { shiftMonth } from '../support/month-names.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));

function run(file: string, args: readonly string[] = [], env: Record<string, string> = {}) {
  return promisify(execFile)(process.execPath, [file, ...args], { cwd: root, env: { ...process.env, ...env } });
}

const seed = (directory: string) => run('test/stack/seed/main.ts', ['--data', directory]);

const months = [-2, -1, 0].map((by) => shiftMonth(new Date().toISOString().slice(0, 7), by));

/** The seeded data of an account. Its usage: once the store has its charges, unless a batch runs. */
async function accountOf(stack: Stack, name: string) {
  const keys = createKeyClient(stack);
  const token = await keys.token(name);
  const client = new OpenAI({ baseURL: `${stack.ingresses[0]?.url}/v1`, apiKey: token });
  const totalOf = async (month = '') => {
    const { body } = await keys.send('GET', `/billing/usage?month=${month}`, { bearer: token });
    return usageSchema.parse(body).total;
  };
  const batches = (await client.batches.list()).data;
  const isRunning = batches.some(({ status }) => status === 'in_progress');
  const giveUpAt = Date.now() + 30_000;
  for (; !isRunning; await sleep(100)) {
    const { body: quota } = await keys.send('GET', '/billing/quota', { bearer: token });
    if ((await totalOf(months[2])).chargedTokens === quota.used) break;
    if (Date.now() > giveUpAt) throw new Error(`usage of ${name} does not reach the store`);
  }
  return {
    keys: (await keys.list(name)).map(({ state, plan }) => `${plan} ${state}`),
    usage: await Promise.all(months.slice(0, isRunning ? 2 : 3).map(totalOf)),
    batches: batches.map(({ status, request_counts: counts }) => `${status} ${counts?.failed}`).toSorted(),
  };
}

test('seeding fills accounts up to this hour; a second run changes nothing; reconcile finds no drift', async (t) => {
  await using stack = await startStack({
    modelServers: { firstTokenMs: 50, tokensPerSecond: 50 },
    models: startedModels,
  });
  const { directory, identity, redisUrl, databaseUrl, planFile } = stack;
  const url = stack.ingresses[0]?.url ?? '';
  const service = { url, redisUrl, databaseUrl, planFile };
  await writeRunningStack({ issuer: identity.issuer, clientSecret: identity.clientSecret, service }, directory);
  // Redis counts this month from now on, before the store has anything of it.
  const keys = createKeyClient(stack);
  await keys.send('GET', '/billing/quota', { bearer: await keys.token('linus') });

  const { stdout } = await seed(directory);
  t.is(stdout.match(/: a new account with plan (free|pro), \d+ requests recorded/g)?.length, 12);
  const reconcile = () =>
    run('workers/usage/reconcile-main.ts', [], { REDIS_URL: redisUrl, DATABASE_URL: databaseUrl, PLAN_FILE: planFile });
  t.regex((await reconcile()).stdout, /^drift: 0$/m, 'reconcile counts the outbox');

  const ada = await accountOf(stack, 'ada');
  t.deepEqual(ada.keys, ['pro active', 'pro rotated']);
  t.deepEqual(
    ada.batches.map((batch) => batch.split(' ')[0]),
    ['cancelled', 'completed', 'in_progress'],
  );
  t.true(ada.batches.includes('completed 2'), 'with two failed lines');
  for (const { requests, failed, chargedTokens } of ada.usage) {
    t.true(requests > 500 && failed > 0 && chargedTokens > 100_000);
  }
  const token = await keys.token('ada');
  const { body: further } = await keys.send('GET', '/v1/keys', { bearer: token });
  const limited = (further.data as { name: string; usage: { tokens: number } }[]).find(({ name }) =>
    /import/.test(name),
  );
  t.is(limited?.usage.tokens, 1_880_000);

  const grace = await accountOf(stack, 'grace');
  const part = (grace.usage[2]?.chargedTokens ?? 0) / 10_000_000;
  t.true(part >= 0.8 && part < 0.81, `${part} of the allowance`);
  t.deepEqual(grace.batches, ['completed 2', 'failed 0']);
  const linus = await accountOf(stack, 'linus');
  t.true(linus.usage.every(({ requests }) => requests > 0));

  const second = await seed(directory);
  t.is(second.stdout.match(/: has a key already, 0 requests recorded$/gm)?.length, 12);
  t.deepEqual(await Promise.all(['grace', 'linus'].map((name) => accountOf(stack, name))), [grace, linus]);
  t.deepEqual((await accountOf(stack, 'ada')).usage, ada.usage);
  t.regex((await reconcile()).stdout, /^drift: 0$/m);
});

test('a stack with models of its own is not seeded', async (t) => {
  await using stack = await startStack({ workers: 0, ingresses: 1 });
  const { directory, identity, redisUrl, databaseUrl, planFile } = stack;
  const service = { url: stack.ingresses[0]?.url ?? '', redisUrl, databaseUrl, planFile };
  await writeRunningStack({ issuer: identity.issuer, clientSecret: identity.clientSecret, service }, directory);
  await t.throwsAsync(seed(directory), {
    code: 1,
    message: /has no model small-embed\. Only a stack with the simulated/,
  });
});

test('without a stack, seeding says how to start one', async (t) => {
  const directory = await mkdtemp(join(tmpdir(), 'inference-seed-'));
  t.teardown(() => rm(directory, { recursive: true, force: true }));
  await t.throwsAsync(seed(directory), { code: 1, message: /No stack is running\. Start one with npm start/ });
  const service = {
    url: 'http://127.0.0.1:9',
    redisUrl: '',
    databaseUrl: `sqlite:${directory}/store.sqlite`,
    planFile: '',
  };
  await writeRunningStack({ issuer: 'http://127.0.0.1:9', clientSecret: '', service }, directory);
  await t.throwsAsync(seed(directory), { code: 1, message: /No stack is running/ }, 'a killed stack left its file');
  t.regex((await run('test/stack/seed/main.ts', ['--help'])).stdout, /^Usage: npm run seed/);
});
