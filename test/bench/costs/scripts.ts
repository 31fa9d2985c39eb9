import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { countersKey } from '../../../shared/redis/keys.ts';
import { startRedis } from '../../stack/redis-server.ts';
import { openLimits } from '../../support/limits-side.ts';
import { median } from '../measure.ts';

/** The time of a script on Redis's processor, in microseconds a call. */
export type ScriptCosts = { admit: number; start: number; settle: number };

const bucketMs = 5_000;
const buckets = 12;
const [rounds, warmUpRounds] = [60, 20];
const requestsAtOnce = 64;
const limits = {
  requestsPerMinute: 1_000_000,
  tokensPerMinute: 1_000_000_000,
  requestsPerDay: 1_000_000_000,
  requestsAtOnce: 100_000,
  tokensPerMonth: 1_000_000_000_000,
};

/**
 * Measures the three scripts of a request, for one account that has been busy for a minute and has all limits, with 64 concurrent
 * requests.
 */
export async function measureScripts(): Promise<ScriptCosts> {
  await using parts = new AsyncDisposableStack();
  const directory = await mkdtemp(join(tmpdir(), 'inference-scripts-'));
  parts.defer(() => rm(directory, { recursive: true, force: true }));
  const server = parts.use(await startRedis({ directory }));
  const redis = parts.adopt(new Redis(server.url), (connection) => connection.disconnect());
  const account = openLimits(redis);
  await account.prepare(new Date().toISOString().slice(0, 7));
  await fillWindow(redis, account.account);

  async function microsEach(call: (name: string) => Promise<unknown>, names: readonly string[]): Promise<number> {
    const before = await scriptMicros(redis);
    await Promise.all(names.map(call));
    return ((await scriptMicros(redis)) - before) / names.length;
  }

  const taken: ScriptCosts[] = [];
  for (let round = 0; round < rounds; round++) {
    const names = Array.from({ length: requestsAtOnce }, (_, index) => `${round}-${index}`);
    const admit = await microsEach((requestId) => account.admit({ requestId, allowance: limits }), names);
    const start = await microsEach((name) => account.start(name), names);
    const settle = await microsEach((name) => account.settle(name), names);
    if (round >= warmUpRounds) taken.push({ admit, start, settle });
  }
  const middle = (script: keyof ScriptCosts) => median(taken.map((micros) => micros[script]));
  return { admit: middle('admit'), start: middle('start'), settle: middle('settle') };
}

/** The buckets of the last minute, as if the account had sent requests all the time. */
async function fillWindow(redis: Redis, account: string): Promise<void> {
  const [seconds] = await redis.time();
  const window = Array.from({ length: buckets - 1 }, (_, index) => {
    const begunAt = 1_000 * Number(seconds) - bucketMs * (buckets - 1 - index);
    return [begunAt, 1_000, 100_000, begunAt + bucketMs - 1];
  });
  await redis.hset(countersKey(account), 'window', JSON.stringify(window));
}

async function scriptMicros(redis: Redis): Promise<number> {
  const [, micros] = /cmdstat_evalsha:calls=\d+,usec=(\d+)/.exec(await redis.info('commandstats')) ?? [];
  return Number(micros ?? 0);
}
