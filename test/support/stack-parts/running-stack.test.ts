import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test, { type ExecutionContext } from 'ava';
import { untilEnded } from '../../stack/earlier-process.ts';
import { readRunningStack, takeDirectory } from '../../stack/running-stack.ts';
import { lastWords } from '../../stack/service-process.ts';

async function openDirectory(t: ExecutionContext): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'running-stack-'));
  t.teardown(() => rm(directory, { recursive: true, force: true }));
  return directory;
}

const stack = {
  ...{ issuer: 'http://127.0.0.1:1', clientSecret: 'secret' },
  service: { url: 'http://127.0.0.1:8080', redisUrl: '', databaseUrl: '', planFile: '' },
};

test('of many starts at once exactly one gets the folder, and the others change nothing in it', async (t) => {
  const directory = await openDirectory(t);
  const takes = await Promise.allSettled(Array.from({ length: 8 }, () => takeDirectory(directory)));
  const taken = takes.flatMap((take) => (take.status === 'fulfilled' ? [take.value] : []));
  t.is(taken.length, 1);
  const refusal = `process ${process.pid}`;
  for (const take of takes) if (take.status === 'rejected') t.true(String(take.reason).includes(refusal));

  taken[0]?.announce(stack);
  const before = await readFile(join(directory, 'stack.json'), 'utf8');
  const refused = await t.throwsAsync(takeDirectory(directory));
  t.regex(
    refused.message,
    /process \d+\). Its address is http:\/\/127\.0\.0\.1:8080\. .*kill \d+.*--free-ports --data/,
  );
  t.is(await readFile(join(directory, 'stack.json'), 'utf8'), before);
  t.like(await readRunningStack(directory), stack);

  taken[0]?.withdraw();
  t.regex((await t.throwsAsync(takeDirectory(directory))).message, /It is starting or stopping/);
  await t.throwsAsync(readRunningStack(directory), { message: /No stack is running/ });
  await taken[0]?.[Symbol.asyncDispose]();
  t.deepEqual(await readdir(directory), ['lock']);
  await (await takeDirectory(directory))[Symbol.asyncDispose]();
});

test('the folder of a process that was killed is free', async (t) => {
  const directory = await openDirectory(t);
  const module = JSON.stringify(new URL('../../stack/running-stack.ts', import.meta.url).href);
  const script = `await (await import(${module})).takeDirectory(${JSON.stringify(directory)}); console.log('taken'); setInterval(() => {}, 1e6);`;
  const holder = spawn(process.execPath, ['--input-type=module', '--eval', script], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  t.teardown(() => holder.kill('SIGKILL'));
  await once(holder.stdout, 'data');
  await t.throwsAsync(takeDirectory(directory), { message: new RegExp(`process ${holder.pid}`) });
  holder.kill('SIGKILL');
  await once(holder, 'exit');
  await using _taken = await takeDirectory(directory);
  t.pass();
});

test('an earlier process is awaited, named if it does not end, and not mistaken for another one with its id', async (t) => {
  const child = spawn('sleep', ['1000']);
  t.teardown(() => child.kill('SIGKILL'));
  await once(child, 'spawn');
  const earlier = { pid: child.pid ?? 0, command: 'sleep' };
  await t.throwsAsync(untilEnded(earlier, 0), {
    message: new RegExp(`Process ${child.pid} \\(sleep\\) .*kill -9 ${child.pid}`),
  });
  await untilEnded({ ...earlier, command: 'ingress/main.ts' }, 0);
  const ended = untilEnded(earlier);
  child.kill('SIGKILL');
  await ended;
});

test('the reason why a process has ended is one line without a stack trace', (t) => {
  const fatal = { level: 'fatal', msg: 'fatal error', err: { message: 'the reason', stack: '    at here' } };
  t.is(lastWords([{ level: 'info', msg: 'waiting' }, fatal, { msg: 'stopped' }], ''), 'fatal error the reason');
  t.is(lastWords([{ level: 'info', msg: 'waiting' }], ''), 'waiting');
  t.is(lastWords([], ''), '');
  t.is(
    lastWords([fatal], 'The configuration is wrong:\n  PORT: is required\n'),
    'The configuration is wrong: PORT: is required',
  );
  t.is(lastWords([], 'file.ts:1\n  ^\n\nTypeError: no\n    at here (file.ts:1:1)\n'), 'file.ts:1 TypeError: no');
});
