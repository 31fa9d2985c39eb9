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
import { createKeyClient } from '../support/key-client.ts';
import { shiftMonth } from '../support/month-names.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));

function run(file: string, args: readonly string[] = [], env: Record<string, string> = {}) {
  return promisify(execFile)(process.execPath, [file, ...args], { cwd: root, env: { ...process.env, ...env } });
}

const seed = (directory: string) => run('test/stack/seed/main.ts', ['--data', directory]);

/** The seeded data of an account, once the store has its charges. */
async function accountOf(stack: Stack, name: string) {
  const keys = createKeyClient(stack);
  const token = await keys.token(name);
  const client = new OpenAI({ baseURL: `${stack.ingresses[0]?.url}/v1`, apiKey: token });
  const thisMonth = new Date().toISOString().slice(0, 7);
  const months = [-2, -1, 0].map((by) => shiftMonth(thisMonth, by));
  const totalOf = async (month: string) => {
    const { body } = await keys.send('GET', `/billing/usage?month=${month}`, { bearer: token });
    return usageSchema.parse(body).total;
  };
  const giveUpAt = Date.now() + 30_000;
  for (;;) {
    const { body: quota } = await keys.send('GET', '/billing/quota', { bearer: token });
    if ((await totalOf(thisMonth)).chargedTokens === quota.used) break;
    if (Date.now() > giveUpAt) throw new Error(`usage of ${name} does not reach the store`);
    await sleep(100);
  }
  const batches = (await client.batches.list()).data;
  return {
    keys: (await keys.list(name)).map(({ state, plan }) => `${plan} ${state}`),
    usage: await Promise.all(months.map(totalOf)),
    batches: batches.map(({ status }) => status).toSorted(),
  };
}

test('seeding fills three months, keys and batches; a second run changes nothing; reconcile finds no drift', async (t) => {
  await using stack = await startStack();
  const { directory, identity, redisUrl, databaseUrl, planFile } = stack;
  const service = { url: stack.ingresses[0]?.url ?? '', redisUrl, databaseUrl, planFile };
  await writeRunningStack({ issuer: identity.issuer, clientSecret: identity.clientSecret, service }, directory);

  const { stdout } = await seed(directory);
  t.regex(stdout, /^ada: \d+ requests recorded in \d{4}-\d\d and \d{4}-\d\d$/m);
  const reconcile = () =>
    run('workers/usage/reconcile-main.ts', [], { REDIS_URL: redisUrl, DATABASE_URL: databaseUrl, PLAN_FILE: planFile });
  t.regex((await reconcile()).stdout, /^drift: 0$/m, 'reconcile counts the outbox');

  const ada = await accountOf(stack, 'ada');
  t.deepEqual(ada.keys, ['pro active', 'pro rotated']);
  t.is(ada.usage[2]?.requests, 24, 'those sent at once, and the lines of one batch');
  t.deepEqual(ada.batches, ['completed', 'failed']);
  for (const { requests, failed, chargedTokens } of ada.usage.slice(0, 2)) {
    t.true(requests > 500 && failed > 0 && chargedTokens > 100_000);
  }
  const grace = await accountOf(stack, 'grace');
  t.deepEqual(grace.batches, ['cancelled', 'completed']);
  t.true(grace.usage.every(({ requests }) => requests > 0));
  const linus = await accountOf(stack, 'linus');
  t.true(linus.usage.every(({ requests }) => requests > 0));

  await seed(directory);
  t.deepEqual(await Promise.all(['ada', 'grace', 'linus'].map((name) => accountOf(stack, name))), [ada, grace, linus]);
  t.regex((await reconcile()).stdout, /^drift: 0$/m);
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
