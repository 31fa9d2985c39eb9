import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { appendFile, mkdtemp, readdir, readFile, rm, stat, utimes } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import test, { type ExecutionContext } from 'ava';
import { Webhook } from 'standardwebhooks';
import { endpoints } from '../../shared/endpoints/endpoints.ts';
import { freePort } from '../stack/free-port.ts';
import { requestToken } from '../stack/identity-provider.ts';
import { startModelServer } from '../stack/model-server.ts';
import { startRedis } from '../stack/redis-server.ts';
import { readRunningStack } from '../stack/running-stack.ts';
import { startedModels } from '../stack/started-models.ts';
import { descendantsOf, stillRunning, type TreeProcess } from '../support/process-tree.ts';
import { someOf } from '../support/size.ts';
import { startWebhookReceiver } from '../support/webhook-receiver.ts';
import { bodyOf } from './route-cases/inference-cases.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));

/** The stack stops its processes one after another, each within seconds. */
const endWithinMs = 60_000;

async function openDirectory(t: ExecutionContext): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'inference-npm-'));
  t.teardown(() => rm(directory, { recursive: true, force: true }));
  return directory;
}

/** Runs a script of package.json with npm, on free ports and in its own folder. */
async function startScript(
  t: ExecutionContext,
  script: string,
  { given, more = [] }: { given?: string; more?: string[] } = {},
) {
  const directory = given ?? (await openDirectory(t));
  const npm = spawn('npm', ['run', '--silent', script, '--', '--free-ports', '--data', directory, ...more], {
    cwd: root,
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true, // a signal to npm reaches only npm
  });
  const { pid } = npm;
  if (pid === undefined) throw new Error('npm did not start');
  const printed: string[] = [];
  const line = linesOf(npm.stdout, printed);
  const warning = linesOf(npm.stderr, []);
  npm.stderr.pipe(process.stderr);
  const started = () => [{ pid, command: 'npm' }, ...descendantsOf(pid)];
  let known = started();
  t.teardown(async () => {
    for (const left of await stillRunning([...known, ...started()], 0)) process.kill(left.pid, 'SIGKILL');
  });
  await line(/^Stop /);
  const shown = (name: string) => printed.findLast((each) => each.startsWith(name))?.slice(10) ?? '';
  const [url = '', key = ''] = [shown('API').split(' ')[0], shown('Key').replace('export KEY=', '')];
  known = started();
  return { npm, pid, url, key, line, warning, directory, printed };
}

type Started = Awaited<ReturnType<typeof startScript>>;

/** Waits for a line that no earlier call has consumed. `printed` gets every consumed line. */
function linesOf(output: Readable, printed: string[]): (wanted: RegExp) => Promise<string> {
  const lines = createInterface({ input: output })[Symbol.asyncIterator]();
  return async (wanted) => {
    for (;;) {
      const { value, done } = await lines.next();
      if (done) throw new Error(`it ended before it printed ${wanted}`);
      printed.push(value);
      if (wanted.test(value)) return value;
    }
  };
}

async function endsEverything(t: ExecutionContext, { npm, pid }: Started, signal: NodeJS.Signals): Promise<void> {
  const processes = descendantsOf(pid);
  for (const part of ['test/stack/main.ts', 'ingress/main.ts', 'workers/main.ts', 'redis-server']) {
    t.true(
      processes.some(({ command }) => command.includes(part)),
      `${part} runs`,
    );
  }
  const ended = once(npm, 'exit', { signal: AbortSignal.timeout(endWithinMs) });
  process.kill(pid, signal);
  t.deepEqual(await ended, [0, null]);
  t.deepEqual(await stillRunning(processes, 5_000), []);
}

// One after another, because each starts a stack: together, they leave no processor time to other tests.
test.serial('npm start offers every endpoint, and the key and the commands that it prints work', async (t) => {
  const { url, key, directory, printed } = await startScript(t, 'start', { more: ['--verbose'] });
  const send = (path: string, bearer: string, body: object = {}) =>
    fetch(`${url}${path}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${bearer}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });

  const commands = printed.join('\n').match(/^curl .*\n.*$/gm) ?? [];
  t.is(commands.length, 2);
  const answers = await Promise.all(commands.map((command) => runShell(command, key)));
  t.like(answers, [{ object: 'chat.completion' }, { object: 'list', model: 'small-embed' }]);
  t.true(commands[1]?.includes(`${url}/openai/v1/embeddings`));
  t.is((await fetch(`${url}/docs`)).status, 200, 'made in a thread');
  const token = printed.find((each) => each.startsWith('eyJ')) ?? '';
  const keys = (await (await fetch(`${url}/v1/keys`, { headers: { authorization: `Bearer ${token}` } })).json()) as {
    data: { name: string }[]; // the service's own answer
  };
  t.deepEqual(
    keys.data.map(({ name }) => name),
    ['npm start'],
  );
  t.is(await readFile(join(directory, 'demo-key'), 'utf8'), `${key}\n`);

  for (const { path, name } of endpoints) {
    const model = Object.keys(startedModels).find((each) => startedModels[each]?.endpoints?.includes(name)) ?? '';
    t.is((await send(path, key, { ...bodyOf(path), model })).status, 200, path);
  }
  const body = { ...bodyOf('/v1/chat/completions'), model: 'old-chat' };
  t.like(await (await send('/openai/v1/chat/completions', key, body)).json(), { model: 'old-chat' });
});

/** The JSON that a command prints. */
async function runShell(command: string, key: string): Promise<unknown> {
  const { stdout } = await promisify(execFile)('bash', ['-c', command], { env: { ...process.env, KEY: key } });
  return JSON.parse(stdout);
}

/** What a start in this folder prints, which must end without success. Leaves out warnings about slow connections. */
async function refusedStart(directory: string, args: string[], env: Record<string, string> = {}): Promise<string> {
  const command = ['run', '--silent', 'start', '--', '--data', directory, ...args];
  const ended = promisify(execFile)('npm', command, {
    cwd: root,
    env: { ...process.env, ...env },
    timeout: endWithinMs,
  });
  const { code, stdout, stderr } = await ended.then(
    () => ({ code: 0, stdout: '', stderr: '' }),
    (error: { code: number; stdout: string; stderr: string }) => error,
  );
  if (code !== 1) throw new Error(`it ended with ${code}: ${stdout}${stderr}`);
  return `${stdout}${stderr}`.replace(/^Starting .*\n/, '').replaceAll(/^.*\(ETIMEDOUT\); retrying.*\n/gm, '');
}

/** The bytes of every file of a folder that only its own stack may change. */
async function ownFiles(directory: string): Promise<Record<string, string>> {
  const names = ['plans.yaml', 'stack.json', 'secrets.json', 'redis/redis.pid', 'identity/identity-secrets.json'];
  const texts = names.map(async (name) => [name, await readFile(join(directory, name), 'utf8')] as const);
  return { ...Object.fromEntries(await Promise.all(texts)), all: (await readdir(directory)).join() };
}

test.serial(
  'a second npm start in the same folder is refused and changes nothing; own changes of the plan file stay',
  async (t) => {
    const first = await startScript(t, 'start');
    const { directory, url } = first;
    const { pid } = JSON.parse(await readFile(join(directory, 'stack.json'), 'utf8')) as { pid: number }; // its own file
    await appendFile(join(directory, 'plans.yaml'), '# my own line\n');
    await first.line(/^plan file changed: 3 backends, 4 models$/);
    const before = await ownFiles(directory);
    for (const args of [[], ['--free-ports']]) {
      const printed = await refusedStart(directory, args);
      t.is(printed.trim().split('\n').length, 1, printed);
      for (const part of [`process ${pid}`, url, `kill ${pid}`, '--data <folder>'])
        t.true(printed.includes(part), printed);
    }
    t.deepEqual(await ownFiles(directory), before);

    const token = await requestToken({ ...(await readRunningStack(directory)), account: 'alice' });
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
    t.is((await fetch(`${url}/v1/keys/developer`, { method: 'POST', headers, body: '{}' })).status, 200, 'it serves');
    await endsEverything(t, first, 'SIGTERM');
    t.false((await readdir(directory)).includes('stack.json'));
  },
);

test.serial('npm start offers webhooks, also to localhost', async (t) => {
  await using receiver = await startWebhookReceiver();
  const { url, directory } = await startScript(t, 'start');
  const token = await requestToken({ ...(await readRunningStack(directory)), account: 'alice' });
  const send = async (path: string, body: object) => {
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
    const response = await fetch(`${url}/v1/webhooks${path}`, { method: 'POST', headers, body: JSON.stringify(body) });
    return (await response.json()) as { id: string; secret: string }; // an answer of the service itself
  };
  const { id, secret } = await send('', { url: `http://localhost:${receiver.port}/`, events: ['batch.completed'] });
  await send(`/${id}/test`, {});
  await receiver.arrived(1);
  const [got] = receiver.received;
  t.like(new Webhook(secret).verify(got?.body ?? '', got?.headers as Record<string, string>), { type: 'webhook.test' });
});

for (const killed of someOf(['test/stack/main.ts'], ['npm', 'test/stack/main.ts'])) {
  for (const script of someOf(['start'], ['start', 'dev'])) {
    test.serial(
      `if ${killed} of npm run ${script} is killed, its processes end, and the next start has the same plan file`,
      async (t) => {
        const { pid, directory, key } = await startScript(t, script);
        await appendFile(join(directory, 'plans.yaml'), '# my own line\n');
        const plan = await readFile(join(directory, 'plans.yaml'), 'utf8');
        const processes: TreeProcess[] = [{ pid, command: 'npm' }, ...descendantsOf(pid)];
        const victim = processes.find(({ command }) => command.includes(killed));
        if (victim === undefined) throw new Error(`${killed} does not run`);
        process.kill(victim.pid, 'SIGKILL');
        // Without npm, the stack stops as on Ctrl-C, and has the folder until then. Otherwise the next start waits for its processes.
        if (killed === 'npm') t.deepEqual(await stillRunning(processes, endWithinMs), []);

        const next = await startScript(t, 'start', { given: directory });
        t.deepEqual(await stillRunning(processes, 0), []);
        t.is(next.key, key);
        const headers = { authorization: `Bearer ${key}` };
        t.is((await fetch(`${next.url}/v1/models`, { headers })).status, 200, 'the key still works');
        t.is(await readFile(join(directory, 'plans.yaml'), 'utf8'), plan);
        await endsEverything(t, next, 'SIGTERM');
      },
    );
  }
}

test.serial(
  'a port in use and a Redis or a store that is wrong end npm start with one line that names the setting',
  async (t) => {
    const directory = await openDirectory(t);
    const taken = createServer().listen(0, '127.0.0.1');
    t.teardown(() => taken.close());
    await once(taken, 'listening');
    const { port } = taken.address() as AddressInfo; // a TCP server has one
    await using redis = await startRedis({ directory: join(directory, 'other-redis') });
    const host = new URL(redis.url).host;
    const free = ['--free-ports'];
    const refused: [string[], Record<string, string>, RegExp][] = [
      [
        [],
        { PORT: String(port), OPS_PORT: String(await freePort()) },
        new RegExp(`: PORT: 127\\.0\\.0\\.1:${port} is in use .* set PORT to`),
      ],
      [
        free,
        { REDIS_URL: `redis://${host}/99` },
        new RegExp(`: REDIS_URL: Redis at ${host} refuses the connection \\(ERR DB index`),
      ],
      [
        free,
        { REDIS_URL: `redis://me:secret@${host}` },
        new RegExp(`: REDIS_URL: Redis at ${host} refuses the connection \\(WRONGPASS`),
      ],
      [free, { REDIS_URL: `redis://${host}/main` }, /: REDIS_URL: expected redis:\/\//],
      [free, { DATABASE_URL: 'mongodb://me:secret@host' }, /: DATABASE_URL: it must name a database/],
    ];
    for (const [args, env, reason] of refused) {
      const printed = await refusedStart(directory, args, env);
      t.regex(printed, reason);
      t.is(printed.trim().split('\n').length, 1, printed);
      t.false(/secret|\{|^\s+at /m.test(printed), printed);
    }
  },
);

for (const signal of someOf(['SIGTERM'] as const, ['SIGTERM', 'SIGINT'] as const)) {
  test.serial(
    `npm start -- --backend answers with the server's models and prints six lines and failures; ${signal}, sent to npm only, ends every process`,
    async (t) => {
      await using server = await startModelServer({ name: 'gpu', models: ['my-model'] });
      const started = await startScript(t, 'start', { more: ['--backend', server.url] });
      const { url, key, printed } = started;
      const at = printed.indexOf(`${server.url}: my-model`);
      t.true(at >= 0);
      t.deepEqual(
        printed.slice(at + 3).map((each) => each.split(' ')[0]),
        ['Console', 'API', 'Docs', 'Sign', 'Key', 'Stop'],
      );
      const ask = () =>
        fetch(`${url}/v1/chat/completions`, {
          method: 'POST',
          headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
          body: JSON.stringify({ model: 'my-model', messages: [{ role: 'user', content: 'Hello' }] }),
        });
      t.is((await ask()).status, 200);
      server.fail({ status: 500, times: 1 });
      t.is((await ask()).status, 200, 'at the second try');
      t.is(await started.warning(/failed for/), `worker: ${new URL(server.url).host} failed for my-model: HTTP 500`);
      await endsEverything(t, started, signal);
    },
  );
}

test.serial(
  'npm run dev restarts the ingress and the worker when their source changes, serves again, and stops on SIGTERM',
  async (t) => {
    const started = await startScript(t, 'dev');
    const { pid, url, line } = started;
    const before = descendantsOf(pid);
    const file = join(root, 'shared/limits/admit.lua');
    const { atime, mtime } = await stat(file);
    await utimes(file, atime, mtime); // watchers see a change; the content stays the same
    const restarted = [await line(/^(ingress|worker): ready/), await line(/^(ingress|worker): ready/)];
    t.deepEqual(restarted.toSorted(), ['ingress: ready', 'worker: ready']);
    t.is((await fetch(`${url}/v1/models`)).status, 401, 'it serves again');
    const after = new Set(descendantsOf(pid).map((each) => each.pid));
    const replaced = before.filter((each) => !after.has(each.pid));
    t.is(replaced.length, 2, 'exactly two processes were replaced');
    for (const { command } of replaced) t.regex(command, / (ingress|workers)\/main\.ts$/);
    await endsEverything(t, started, 'SIGTERM');
  },
);
