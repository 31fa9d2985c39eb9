import { once } from 'node:events';
import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import type { AddressInfo } from 'node:net';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test from 'ava';
import { freePort, portsNear } from '../../stack/free-port.ts';
import { openBrowser, readyLines } from '../../stack/introduce.ts';
import { createLogWords } from '../../stack/log-words.ts';
import { developerHelp, userHelp } from '../../stack/print-help.ts';

test('a failure is shown with its backend, model and reason, once in a minute', (t) => {
  let time = 0;
  const words = createLogWords(() => time);
  const failed = { level: 'warn', msg: 'a backend failed', backend: 'onprem-a', model: 'small-chat' };
  const refused = { message: 'the connection failed', cause: { message: 'connect', code: 'ECONNREFUSED' } };
  const text = 'worker: onprem-a failed for small-chat: the connection failed (ECONNREFUSED)';
  t.deepEqual(words('worker', { ...failed, err: refused }), { text, isWarning: true });
  t.is(
    words('worker', { ...failed, status: 401, err: refused })?.text,
    'worker: onprem-a failed for small-chat: HTTP 401',
  );
  t.is(words('worker', { ...failed, err: refused }), undefined);
  time = 60_000;
  t.is(words('worker', { ...failed, err: refused })?.text, text);
  t.is(words('worker', { ...failed, err: { message: 'x'.repeat(9_999) } })?.text.length, 500);
  t.is(words('worker', { ...failed, err: { message: '\u001b[2Jred' } })?.text.slice(-6), '[2Jred');
  t.is(words('worker', { level: 'info', msg: 'a job was processed' }), undefined);
});

test('a breaker is shown when it opens and when it closes again, and not while it tests', (t) => {
  const words = createLogWords();
  const changed = (breaker: string) =>
    words('worker', { level: 'info', msg: 'a breaker has changed', backend: 'cloud', model: 'small-chat', breaker });
  t.regex(changed('open')?.text ?? '', /^worker: cloud for small-chat is paused after failures \(breaker open\)/);
  t.deepEqual([changed('half-open'), changed('open')], [undefined, undefined]);
  t.deepEqual(changed('closed'), {
    text: 'worker: cloud for small-chat answers again (breaker closed)',
    isWarning: false,
  });
  t.is(changed('closed'), undefined);
});

test('a change of the plan file is shown, and what is wrong with it once for all processes', (t) => {
  const words = createLogWords();
  const replaced = { level: 'info', msg: 'the plan file was replaced', backends: 3, models: 1 };
  t.is(words('ingress', replaced)?.text, 'plan file changed: 3 backends, 1 model');
  const invalid = { level: 'error', msg: 'the plan file is invalid', issues: ['plans.yaml:1:1: no', 'more'] };
  t.is(words('ingress', invalid)?.text, 'the plan file is invalid: plans.yaml:1:1: no; more');
  t.is(words('worker', invalid), undefined);
});

test('what Node prints of a process that it watches is shown, and that the process is ready again', (t) => {
  const words = createLogWords();
  t.is(words('ingress', { level: 'info', msg: 'ready' }), undefined);
  t.is(words('ingress', { msg: 'Restarting' })?.text, 'ingress: Restarting');
  t.is(words('ingress', { level: 'info', msg: 'ready' })?.text, 'ingress: ready');
});

test('a start that is ready prints six lines', (t) => {
  const lines = readyLines({ url: 'http://127.0.0.1:8080', key: 'svc_key' });
  t.is(lines.length, 6);
  t.true(lines.includes('Key       export KEY=svc_key'));
  t.regex(readyLines({ url: '', key: undefined })[4] ?? '', /^Key {7}none: the store does not answer/);
});

test('a port in use is replaced by the next one that is free and not wanted otherwise', async (t) => {
  const first = await freePort();
  const taken = createServer().listen(first, '127.0.0.1');
  await once(taken, 'listening');
  t.teardown(() => taken.close());
  const { port } = taken.address() as AddressInfo; // a TCP server has one
  t.deepEqual(await portsNear([port, port + 1]), [port + 2, port + 1]);
});

test('--open gives the address to the browser of this machine, or says that there is none', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'open-browser-'));
  t.teardown(() => rm(folder, { recursive: true }));
  const url = 'http://127.0.0.1:8080/console';
  const env = { PATH: folder };
  t.regex((await openBrowser(url, env)) ?? '', /^No browser was opened: .* \(there is none here\)\. Open http/);
  if (process.platform !== 'linux') return;
  const program = join(folder, 'xdg-open');
  await writeFile(program, `#!/bin/sh\necho "$1" > ${folder}/opened\n`);
  await chmod(program, 0o755);
  t.is(await openBrowser(url, env), undefined);
  t.is(await readFile(join(folder, 'opened'), 'utf8'), `${url}\n`);
  await writeFile(program, '#!/bin/sh\nexit 3\n');
  t.regex((await openBrowser(url, env)) ?? '', /it ended with 3/);
});

test('every command of package.json is in one of the two lists, and the list for users is short', async (t) => {
  const { scripts } = JSON.parse(await readFile('package.json', 'utf8')) as { scripts: object }; // our own file
  const named = `${userHelp}\n${developerHelp}`;
  const known = (name: string) => new RegExp(`(npm (run )?|; |, | and )${name}\\b`).test(named);
  t.deepEqual(
    Object.keys(scripts).filter((name) => name !== 'guard' && !known(name)),
    [],
  );
  t.is(userHelp.split('\n').length, 10);
});
