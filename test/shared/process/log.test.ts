import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import test from 'ava';
import { makeKey, maskKey } from '../../../ingress/authentication/api-key.ts';
import { maskKeys } from '../../../shared/json/texts.ts';

const module = new URL('../../../shared/process/log.ts', import.meta.url).href;

/** The lines that a separate process writes: the log writes to standard output only. */
async function written(level: string, statements: string, format?: 'pretty'): Promise<string[]> {
  return (await text(start(level, statements, format).stdout)).split('\n').filter((line) => line !== '');
}

function start(level: string, statements: string, format = 'json') {
  const script = `
    const { createLog } = await import(process.argv[1]);
    const log = createLog({ level: process.argv[2], format: process.argv[3], process: 'ingress' });
    ${statements}
  `;
  return spawn(process.execPath, ['--input-type=module', '-e', script, module, level, format], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
}

test('a full key is masked at any position in a line', async (t) => {
  const key = makeKey();
  const lines = await written(
    'info',
    `
    const key = '${key}';
    log.info({}, 'said ' + key);
    log.info({ key, deep: { keys: [key, key + ',' + key] }, [key]: 1 }, 'fields');
    log.warn({ err: new Error('key ' + key + ' failed', { cause: new Error('of ' + key) }) }, 'an error');
    log.error({ url: 'https://x/?key=' + key + '&a=b', header: 'Bearer%20' + key, quoted: JSON.stringify({ key }) }, 'odd');
    log.error({ joined: 'a_' + key + 'failed', lines: 'first\\n' + key + '\\n\\t' + key }, 'no boundary');
  `,
  );
  t.is(lines.length, 5);
  for (const line of lines) {
    t.false(line.includes(key), line);
    t.true(line.includes(maskKey(key)), line);
    t.notThrows(() => JSON.parse(line));
  }
});

test('lines are JSON with time, level and process, and lines below the level are not written', async (t) => {
  const lines = await written('warn', `log.info({}, 'quiet'); log.warn({ a: 1 }, 'loud');`);
  t.is(lines.length, 1);
  const line = JSON.parse(lines[0] ?? '');
  t.like(line, { level: 'warn', process: 'ingress', a: 1, msg: 'loud' });
  t.false(Number.isNaN(Date.parse(line.time)));
});

test('lines are written in order, in whichever way the process ends', async (t) => {
  const all = Array.from({ length: 1_000 }, (_, at) => at);
  const many = `for (let at = 0; at < ${all.length}; at++) log.info({ at }, 'one of many');`;
  for (const end of ['process.exit(0)', `log.fatal({}, 'the end'); process.kill(process.pid, 'SIGKILL')`]) {
    const lines = (await written('info', `${many} ${end}`)).map((line) => JSON.parse(line));
    const numbers = lines.filter(({ msg }) => msg === 'one of many').map(({ at }) => at);
    t.deepEqual(numbers, all, end);
  }
});

test('a line is written while the process runs, even if no other follows', async (t) => {
  const child = start('info', `log.info({}, 'alone'); setInterval(() => {}, 1_000);`);
  t.teardown(() => child.kill());
  const [first] = await once(child.stdout, 'data');
  t.is(JSON.parse(String(first)).msg, 'alone');
});

test('text that is not a full key is not changed', (t) => {
  const key = makeKey();
  const kept = [maskKey(key), key.slice(0, 10), key.slice(0, -1), 'svc_', 'req_01KAAAAAAAAAAAAAAAAAAAAAAA'];
  for (const text of kept) t.is(maskKeys(text), text);
  t.is(maskKeys(`${key} ${key}`), `${maskKey(key)} ${maskKey(key)}`);
});

test('an error is logged with type, message, stack, code and causes, without fields attached by a library', async (t) => {
  const [line = ''] = await written(
    'info',
    `
    const command = { name: 'set', args: ['canary'] };
    const cause = Object.assign(new Error('OOM command not allowed'), { name: 'ReplyError', command });
    const error = Object.assign(new TypeError('no room', { cause }), { code: 'EROOM', body: 'canary', op: { canary: 1 } });
    log.warn({ err: error }, 'a call failed');
  `,
  );
  const { err } = JSON.parse(line);
  t.like(err, { type: 'TypeError', message: 'no room', code: 'EROOM' });
  t.like(err.cause, { type: 'ReplyError', message: 'OOM command not allowed' });
  t.regex(err.stack, /^ {4}at /);
  t.false(line.includes('canary'), line);
});

test('the length of a logged error is bounded, and so is its chain of causes', async (t) => {
  const lines = await written(
    'info',
    `
    const long = new Error('m'.repeat(3_000_000), { cause: 'c'.repeat(3_000_000) });
    log.warn({ err: Object.assign(long, { code: 'e'.repeat(3_000_000), name: 'n'.repeat(3_000_000) }) }, 'long');
    let chain = new Error('deepest');
    for (let depth = 0; depth < 1_000; depth++) chain = new Error('level', { cause: chain });
    log.warn({ err: chain }, 'deep');
    const circle = new Error('circle');
    circle.cause = circle;
    log.warn({ err: circle }, 'circular');
    log.warn({ err: new AggregateError([new Error('refused by ::1'), new Error('refused by 127.0.0.1')]) }, 'several');
    log.warn({ err: undefined }, 'none');
    try { JSON.parse('a canary of a prompt'); } catch (err) { log.warn({ err }, 'not JSON'); }
  `,
  );
  t.is(lines.length, 6);
  for (const line of lines) t.true(line.length < 20_000, `${line.length}`);
  t.false(lines[1]?.includes('deepest'));
  t.is(JSON.parse(lines[3] ?? '').err.message, 'refused by ::1; refused by 127.0.0.1');
  t.false('err' in JSON.parse(lines[4] ?? ''));
  t.regex(JSON.parse(lines[5] ?? '').err.message, /not valid JSON/);
  t.false(lines[5]?.includes('canary'), lines[5]);
});

test('pretty lines have time, level, process, message and fields, mask keys, and show the stack of an error below', async (t) => {
  const key = makeKey();
  const lines = await written(
    'info',
    `
    log.info({ route: '/v1/models', durationMs: 5, text: 'two words', none: undefined, deep: { a: [1] } }, 'answered ${key}');
    log.error({ err: Object.assign(new TypeError('no ${key}', { cause: new Error('below') }), { code: 'E1' }) }, 'failed');
  `,
    'pretty',
  );
  t.regex(
    lines[0] ?? '',
    /^\d\d:\d\d:\d\d\.\d{3} INFO {2}ingress answered svc_\w{6}\*{4} route=\/v1\/models durationMs=5 /,
  );
  t.true(lines[0]?.endsWith(' text="two words" deep={"a":[1]}'), lines[0]);
  t.regex(lines[1] ?? '', / ERROR ingress failed$/);
  t.is(lines[2], `    error: TypeError (E1): no ${maskKey(key)}`);
  t.regex(lines[3] ?? '', /^ {4}at /);
  t.true(lines.includes('    cause: Error: below'));
  for (const line of lines) t.false(line.includes(key), line);
});

test('text in a pretty line cannot control the terminal or begin another line', async (t) => {
  const hostile = '\\u001b[31m\\r\\n12:00:00 INFO forged \\u202e\\u009b2J';
  const lines = await written(
    'info',
    `log.warn({ [\`${hostile}\`]: \`${hostile}\`, err: new Error(\`${hostile}\`) }, \`${hostile}\`);`.replaceAll(
      '\\\\',
      '\\',
    ),
    'pretty',
  );
  const all = lines.join('');
  t.notRegex(all, /[\p{Cc}\p{Cf}]/u);
  for (const line of lines) t.notRegex(line, /^12:00:00 INFO forged/);
  t.true(all.includes('forged'));
});

for (const terminal of ['stdout', 'stderr']) {
  test(`only if ${terminal} is a terminal, a pretty log to ${terminal} has colours; an error is shown without its stack`, async (t) => {
    const script = `
      const { createLog } = await import(process.argv[1]);
      process.${terminal}.isTTY = true;
      for (const forTerminal of [true, false]) {
        const log = createLog({ level: 'info', format: 'pretty', process: 'reconcile', forTerminal });
        log.warn({ err: new Error('of the store') }, 'failed');
      }
    `;
    const { FORCE_COLOR: _, NO_COLOR: __, CI: ___, ...env } = process.env;
    const child = spawn(process.execPath, ['--input-type=module', '-e', script, module], {
      ...{ stdio: ['ignore', 'pipe', 'pipe'], env: { ...env, TERM: 'xterm-256color' } },
    });
    const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr)]);
    t.is(stdout.includes('\u001b['), terminal === 'stdout', stdout);
    t.is(stderr.includes('\u001b['), terminal === 'stderr', stderr);
    t.true(stderr.endsWith(' reconcile failed\n    error: of the store\n'), stderr);
  });
}
