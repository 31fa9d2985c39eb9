import { spawn } from 'node:child_process';
import { text } from 'node:stream/consumers';
import { findProgram, installByApt } from './install-by-apt.ts';

/** Required by the flags of the scripts. */
const majorVersionMin = 7;

/**
 * The program that `findRedis` finds must be started under this name (`argv0`): `redis-server` and `redis-check-rdb` are one binary,
 * which acts by the name that it is started with.
 */
export const redisName = 'redis-server';

const advice = 'install redis-server 7 or later, or set REDIS_URL to your own Redis';

/**
 * Returns the path of a Redis server, version 7 or later. If there is none and apt can be used, installs `redis-tools`, which has the
 * binary without a service: nothing starts, now or at boot, and port 6379 stays free. Otherwise throws; the message says how to get one.
 */
export async function findRedis(): Promise<string> {
  const found = (await findProgram(redisName)) ?? (await findProgram('redis-check-rdb'));
  const program = found ?? (await installRedis());
  const { stdout } = spawn(program, ['--version'], {
    argv0: redisName,
    stdio: ['ignore', 'pipe', 'ignore'],
    timeout: 10_000,
  });
  const version = /v=(\d+)\S*/.exec(await text(stdout));
  if (Number(version?.[1] ?? 0) < majorVersionMin) {
    throw new Error(`${program} is too old (${version?.[0] ?? 'its version is unknown'}): ${advice}.`);
  }
  return program;
}

async function installRedis(): Promise<string> {
  await installByApt({ what: 'Redis', packages: ['redis-tools'], advice });
  const installed = await findProgram('redis-check-rdb');
  if (installed === undefined) throw new Error(`apt installed no Redis: ${advice}.`);
  return installed;
}
