import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { access, constants, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import test from 'ava';
import { Redis } from 'ioredis';
import { findRedis, startRedis } from '../../stack/redis-server.ts';

const module = new URL('../../stack/redis-server.ts', import.meta.url).href;

async function temporaryDirectory(t: { teardown(end: () => Promise<void>): void }): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'redis server-'));
  t.teardown(() => rm(directory, { recursive: true, force: true }));
  return directory;
}

/** The result of `findRedis`, or the message of its error, with only this directory on the path. */
async function findRedisIn(path: string): Promise<string> {
  const script = `
    const { findRedis } = await import(process.argv[1]);
    console.log(await findRedis().catch((error) => error.message));
  `;
  const child = spawn(process.execPath, ['--input-type=module', '-e', script, module], {
    env: { PATH: path },
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  return (await text(child.stdout)).trim();
}

async function writeProgram(path: string, shell: string): Promise<void> {
  await writeFile(path, `#!/bin/sh\n${shell}\n`, { mode: 0o755 });
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

test('finds a Redis that can run', async (t) => {
  await t.notThrowsAsync(access(await findRedis(), constants.X_OK));
});

test('uses the other name of the same binary, and refuses a Redis that is too old', async (t) => {
  const bin = await temporaryDirectory(t);
  await symlink(await findRedis(), join(bin, 'redis-check-rdb'));
  t.is(await findRedisIn(bin), join(bin, 'redis-check-rdb'));
  await writeProgram(join(bin, 'redis-server'), 'echo Redis server v=6.0.16 sha=0');
  t.regex(await findRedisIn(bin), /too old \(v=6\.0\.16\): install redis-server 7 or later, or set REDIS_URL/);
});

test('installs only the program if apt is available, after an update if necessary', async (t) => {
  const bin = await temporaryDirectory(t);
  t.regex(await findRedisIn(bin), /Redis is missing: install redis-server 7 or later, or set REDIS_URL/);
  await symlink('/usr/bin/env', join(bin, 'env'));
  await writeProgram(join(bin, 'sudo'), 'shift; exec "$@"');
  const install = `/bin/ln -s '${await findRedis()}' '${join(bin, 'redis-check-rdb')}'`;
  await writeProgram(
    join(bin, 'apt-get'),
    `echo "$@" >> "$0.log"; case "$1" in update) : > "$0.ok" ;; *) [ -e "$0.ok" ] && ${install} ;; esac`,
  );
  t.is(await findRedisIn(bin), join(bin, 'redis-check-rdb'));
  const calls = (await readFile(join(bin, 'apt-get.log'), 'utf8')).trimEnd().split('\n');
  t.is(calls.length, 3);
  t.true(calls[0]?.endsWith(' redis-tools'));
  t.regex(calls[1] ?? '', /^update/);
  t.is(calls[2], calls[0]);
});

test('keeps its data over a kill -9 and a restart on the same port', async (t) => {
  await using server = await startRedis({ directory: await temporaryDirectory(t) });
  const { port, pid } = server;
  const client = new Redis(server.url);
  t.teardown(() => client.disconnect());
  client.on('error', () => undefined);
  t.deepEqual(await client.config('GET', 'maxmemory-policy'), ['maxmemory-policy', 'noeviction']);
  t.deepEqual(await client.config('GET', 'save'), ['save', '']);
  t.deepEqual(await client.config('GET', 'append*sync'), ['appendfsync', 'everysec']);
  await client.set('kept', 'yes');

  await server.kill('SIGKILL');
  t.false(isRunning(pid));
  await server.restart();

  t.is(server.port, port);
  t.not(server.pid, pid);
  t.is(await client.get('kept'), 'yes');
});

test('freezes, continues, and stops, even if asked twice or while frozen', async (t) => {
  const directory = await temporaryDirectory(t);
  await using server = await startRedis({ directory });
  const client = new Redis(server.url);
  t.teardown(() => client.disconnect());
  client.on('error', () => undefined);
  await client.set('a', '1');
  await server.kill('SIGSTOP');
  let answered = false;
  const answer = client.get('a').finally(() => {
    answered = true;
  });
  await sleep(100);
  t.false(answered);
  await server.kill('SIGCONT');
  t.is(await answer, '1');

  await server.kill('SIGSTOP');
  await server.stop();
  t.false(isRunning(server.pid));
  t.regex(await readFile(join(directory, 'redis.log'), 'utf8'), /ready to exit/);
  await t.notThrowsAsync(server.stop());
});

test('says why it did not start', async (t) => {
  await using first = await startRedis({ directory: await temporaryDirectory(t) });
  const second = startRedis({ directory: await temporaryDirectory(t), port: first.port });
  await t.throwsAsync(second, { message: new RegExp(`did not start on port ${first.port}.*in use`) });
});

test('gives each of many concurrent servers its own port', async (t) => {
  const directories = await Promise.all(Array.from({ length: 5 }, () => temporaryDirectory(t)));
  const servers = await Promise.all(directories.map((directory) => startRedis({ directory })));
  await Promise.all(servers.map((server) => server.stop()));
  t.is(new Set(servers.map(({ port }) => port)).size, 5);
});

test('ends soon after the process that started it was killed', async (t) => {
  const script = `
    const { startRedis } = await import(process.argv[1]);
    const server = await startRedis({ directory: process.argv[2] });
    console.log(server.pid);
    setInterval(() => undefined, 1_000);
  `;
  const parent = spawn(process.execPath, ['--input-type=module', '-e', script, module, await temporaryDirectory(t)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const [line] = await once(createInterface(parent.stdout), 'line');
  const pid = Number(line);
  t.teardown(() => (isRunning(pid) ? process.kill(pid, 'SIGKILL') : false));
  t.true(isRunning(pid));

  parent.kill('SIGKILL');

  const deadline = Date.now() + 10_000;
  while (isRunning(pid) && Date.now() < deadline) await sleep(20);
  t.false(isRunning(pid));
});
