import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import test, { type ExecutionContext } from 'ava';
import { createSqliteHome } from '../../shared/store/sqlite-home.ts';
import { freePort } from '../../stack/free-port.ts';
import { planText } from '../../support/plan-text.ts';
import { openRedisDatabase } from '../../support/private-redis.ts';
import { createSqliteReconcileHome, wrongBy } from './reconcile-homes.ts';
import { openReconcileSide } from './reconcile-side.ts';

const root = fileURLToPath(new URL('../../..', import.meta.url));

function start(args: readonly string[], env: Record<string, string>): ChildProcess {
  return spawn(process.execPath, ['workers/usage/reconcile-main.ts', ...args], {
    cwd: root,
    env: { NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE ?? '', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
}

type Ended = { code: number | null; out: string; errors: string };

async function ended(child: ChildProcess): Promise<Ended> {
  const { stdout, stderr } = child;
  if (stdout === null || stderr === null) throw new Error('both are pipes');
  const [out, errors, [code]] = await Promise.all([text(stdout), text(stderr), once(child, 'exit')]);
  return { code, out, errors };
}

const run = (args: readonly string[], env: Record<string, string>) => ended(start(args, env));

/** It exited with a sentence that gives the reason, and with nothing that is only for developers. */
function failsWith(t: ExecutionContext, { code, out, errors }: Ended, why: RegExp): void {
  t.is(code, 2);
  t.is(out, '');
  t.regex(errors, why);
  t.notRegex(errors, /hunter2|\n\s+at |node:internal|\.ts:\d/);
}

async function writePlanFile(folder: string): Promise<string> {
  const file = join(folder, 'plans.yaml');
  await writeFile(file, planText());
  return file;
}

test('--help prints the usage, and unknown arguments are refused with it', async (t) => {
  const help = await run(['--help'], {});
  t.is(help.code, 0);
  t.regex(help.out, /^Usage: npm run --silent reconcile .*--repair.*--help/);
  t.is(help.errors, '');
  for (const args of [['--fix'], ['--repair', 'everything'], ['--repair=no'], ['-r']]) {
    t.deepEqual(await run(args, {}), { code: 2, out: '', errors: help.out }, args.join(' '));
  }
});

test('all wrong settings are named at once', async (t) => {
  const nothing = await run([], {});
  failsWith(t, nothing, /REDIS_URL: is required\n {2}DATABASE_URL: is required\n {2}PLAN_FILE: is required/);
  const wrong = {
    REDIS_URL: 'http://user:hunter2@redis',
    DATABASE_URL: 'hunter2',
    PLAN_FILE: '/nowhere',
    LOG_LEVEL: 'loud',
  };
  const all = await run([], wrong);
  for (const name of Object.keys(wrong)) failsWith(t, all, new RegExp(` {2}${name}: `));
});

test('a Redis that refuses its user or the number of its database is named, and nothing is compared', async (t) => {
  await using own = await openRedisDatabase();
  await using home = await createSqliteReconcileHome();
  await using _store = await home.open();
  const folder = home.url.replace(/^sqlite:/, '').replace(/[^/]*$/, '');
  const env = { DATABASE_URL: home.url, PLAN_FILE: await writePlanFile(folder) };
  for (const url of [own.url.replace(/\/\d+$/, '/9999'), own.url.replace('://', '://stranger:hunter2@')]) {
    failsWith(
      t,
      await run(['--repair'], { ...env, REDIS_URL: url }),
      /^REDIS_URL: Redis at .* refuses the connection/m,
    );
  }
});

test('drift is printed on standard output with exit code 1, and the exit code is 0 once it is repaired', async (t) => {
  await using own = await openRedisDatabase();
  await using home = await createSqliteReconcileHome();
  await using store = await home.open();
  const side = openReconcileSide(own.redis, store);
  const month = await side.monthsAgo(0);
  const [ann, bob] = [await side.openAccount('user:ann'), await side.openAccount('user:\u001b[2Jbob')];
  await ann.use('a', { tokens: 30 });
  await bob.use('b', { tokens: 30 });
  await side.drain();
  const folder = home.url.replace(/^sqlite:/, '').replace(/[^/]*$/, '');
  const env = { REDIS_URL: own.url, DATABASE_URL: home.url, PLAN_FILE: await writePlanFile(folder) };

  const checked = 'accounts checked: 2\nmonths checked: 4\n';
  const exact = await run([], env);
  t.deepEqual([exact.code, exact.out], [0, `${checked}drift: 0\n`]);
  t.regex(exact.errors, /^checked 4 months of 2 accounts; 0 differ\n$/m);

  await home.spoil(bob.account, 'too high');
  const right = 'Redis counts 30 charged, 0 reserved, 0 overage, expected 30 charged, 0 reserved, 0 overage';
  const kept = `the store has ${30 + wrongBy} tokens of 1 requests, recomputed 30 tokens of 1 requests`;
  const line = `  "user:\\u001b[2Jbob" ${month}: ${kept}; ${right}`;
  const drift = `${wrongBy} tokens in 1 account-months`;
  const drifted = await run([], env);
  t.deepEqual([drifted.code, drifted.out], [1, `${checked}${line}\ndrift: ${drift}\n`]);
  t.regex(
    drifted.errors,
    /^checked \d months of \d accounts; \d differ\n(checked .*\n)+$/,
    'a difference is checked for a few seconds',
  );

  const repaired = await run(['--repair'], env);
  t.deepEqual([repaired.code, repaired.out], [0, `${checked}${line}; repaired\nfound: ${drift}\ndrift: 0\n`]);
  const again = await run([], env);
  t.deepEqual([again.code, again.out], [0, exact.out]);
});

test('an unavailable Redis or store is reported after a while, without its address', async (t) => {
  await using own = await openRedisDatabase();
  await using home = await createSqliteHome();
  await (await home.open())[Symbol.asyncDispose]();
  const unreachable = `user:hunter2@127.0.0.1:${await freePort()}`;
  const env = { REDIS_URL: own.url, DATABASE_URL: home.url, PLAN_FILE: await writePlanFile(home.folder) };
  const [redisAway, storeAway, bothAway] = await Promise.all([
    run([], { ...env, REDIS_URL: `redis://${unreachable}` }),
    run([], { ...env, DATABASE_URL: `mongodb://${unreachable}/usage` }),
    run(['--repair'], { ...env, REDIS_URL: `redis://${unreachable}`, DATABASE_URL: `mongodb://${unreachable}/usage` }),
  ]);
  failsWith(t, redisAway, /^Cannot reach Redis; drift is unknown\.$/m);
  failsWith(t, storeAway, /^Cannot reach the store; drift is unknown\.$/m);
  failsWith(t, bothAway, /^Cannot reach Redis and the store; drift is unknown\.$/m);
});

test('a missing file is an error, and is not created', async (t) => {
  await using home = await createSqliteHome();
  const PLAN_FILE = await writePlanFile(home.folder);
  const env = { REDIS_URL: 'redis://127.0.0.1:1', DATABASE_URL: home.url, PLAN_FILE };
  failsWith(t, await run([], env), /^DATABASE_URL names a file that does not exist\.$/m);
  t.false(existsSync(home.file));
});

for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  test(`${signal} ends it at once, and it reports that it did not finish`, async (t) => {
    await using home = await createSqliteHome();
    await (await home.open())[Symbol.asyncDispose]();
    const REDIS_URL = `redis://127.0.0.1:${await freePort()}`;
    const env = { REDIS_URL, DATABASE_URL: home.url, PLAN_FILE: await writePlanFile(home.folder) };
    const child = start([], env);
    const end = ended(child);
    if (child.stderr !== null) await once(child.stderr, 'data');
    child.kill(signal);
    failsWith(t, await end, /^Stopped before everything was compared\.$/m);
  });
}
