import { execFile, spawn } from 'node:child_process';
import { access, constants } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** The scripts' flags need it. */
const majorVersionMin = 7;

/** `apt-get update` on a slow line, or another apt that is still at work. */
const aptWithinMs = 300_000;

/**
 * The program that `findRedis` finds has to be started under this name (`argv0`): `redis-server` and `redis-check-rdb` are
 * one binary, which goes by the name that it is started with.
 */
export const redisName = 'redis-server';

const advice = 'install redis-server 7 or later, or set REDIS_URL to a Redis of yours';

/**
 * The path of a Redis server, version 7 or later; where there is none and apt can be used, it is installed. What gets
 * installed is `redis-tools`, which holds the binary without a service: nothing starts, now or at boot, and port 6379
 * stays free. Otherwise it throws, and the message says how to get one.
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
  const asRoot = (await findProgram('apt-get')) === undefined ? undefined : await rootPrefix();
  if (asRoot === undefined) throw new Error(`Redis is missing: ${advice}.`);
  console.error('Redis is missing; installing the package redis-tools by apt (the program only, no system service) …');
  const aptGet = (...args: string[]) => {
    const [command = 'apt-get', ...rest] = [...asRoot, 'env', 'DEBIAN_FRONTEND=noninteractive', 'apt-get', ...args];
    return run(command, rest, { timeout: aptWithinMs });
  };
  const install = () =>
    aptGet('install', '-y', '--no-install-recommends', '-o', 'DPkg::Lock::Timeout=120', 'redis-tools');
  try {
    await install().catch(async () => {
      await aptGet('update', '-q'); // the usual reason: no package lists, or old ones
      await install();
    });
  } catch (cause) {
    throw new Error(`Redis is missing, and apt could not install it: ${advice}.`, { cause });
  }
  const installed = await findProgram('redis-check-rdb');
  if (installed === undefined) throw new Error(`apt installed no Redis: ${advice}.`);
  return installed;
}

/** What makes a command run as root without asking anybody: nothing, or `sudo -n`; `undefined` if that is refused. */
async function rootPrefix(): Promise<string[] | undefined> {
  if (process.getuid?.() === 0) return [];
  const allowed = await run('sudo', ['-n', 'true'], { timeout: 10_000 }).then(
    () => true,
    () => false,
  );
  return allowed ? ['sudo', '-n'] : undefined;
}

async function findProgram(name: string): Promise<string | undefined> {
  for (const directory of (process.env.PATH ?? '').split(delimiter).filter(Boolean)) {
    const path = join(directory, name);
    const executable = await access(path, constants.X_OK).then(
      () => true,
      () => false,
    );
    if (executable) return path;
  }
  return undefined;
}
