import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, stat, utimes } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import test, { type ExecutionContext } from 'ava';
import { endpoints } from '../../shared/endpoints/routes.ts';
import { requestToken } from '../stack/identity-provider.ts';
import { readRunningStack } from '../stack/running-stack.ts';
import { startedModels } from '../stack/started-models.ts';
import { descendantsOf, stillRunning } from '../support/process-tree.ts';
import { bodyFor } from './endpoint-cases.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));

/** The stack stops its processes one after another, each within seconds. */
const endWithinMs = 60_000;

/** Runs a script of package.json with npm, on free ports and in its own folder. */
async function startScript(t: ExecutionContext, script: string) {
  const directory = await mkdtemp(join(tmpdir(), 'inference-npm-'));
  const npm = spawn('npm', ['run', '--silent', script, '--', '--free-ports', '--data', directory], {
    cwd: root,
    stdio: ['ignore', 'pipe', 'inherit'],
    detached: true, // a signal to npm reaches only npm
  });
  const { pid } = npm;
  if (pid === undefined) throw new Error('npm did not start');
  const printed: string[] = [];
  const line = linesOf(npm, printed);
  const started = () => [{ pid, command: 'npm' }, ...descendantsOf(pid)];
  let known = started();
  t.teardown(async () => {
    for (const left of await stillRunning([...known, ...started()], 0)) process.kill(left.pid, 'SIGKILL');
    await rm(directory, { recursive: true, force: true });
  });
  const url = (await line(/^ready http/)).replace('ready ', '');
  known = started();
  return { npm, pid, url, line, directory, printed };
}

type Started = Awaited<ReturnType<typeof startScript>>;

/** Waits for a line of standard output that no earlier call has consumed. `printed` gets every consumed line. */
function linesOf({ stdout }: ChildProcess, printed: string[]): (wanted: RegExp) => Promise<string> {
  if (stdout === null) throw new Error('it is a pipe');
  const lines = createInterface({ input: stdout })[Symbol.asyncIterator]();
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
test.serial('npm start offers every endpoint, and the commands that it prints work', async (t) => {
  const { url, directory, printed } = await startScript(t, 'start');
  const token = await requestToken({ ...(await readRunningStack(directory)), account: 'alice' });
  const send = (path: string, bearer: string, body: object = {}) =>
    fetch(`${url}${path}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${bearer}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
  const { key } = (await (await send('/v1/keys/developer', token)).json()) as { key: string }; // the service's own answer

  const commands = printed.join('\n').match(/^curl .*\n.*$/gm) ?? [];
  t.is(commands.length, 2);
  const answers = await Promise.all(commands.map((command) => runShell(command, key)));
  t.like(answers, [{ object: 'chat.completion' }, { object: 'list', model: 'small-embed' }]);
  t.true(commands[1]?.includes(`${url}/openai/v1/embeddings`));

  for (const { path, name } of endpoints) {
    const model = Object.keys(startedModels).find((each) => startedModels[each]?.endpoints?.includes(name)) ?? '';
    t.is((await send(path, key, bodyFor(path, { model }))).status, 200, path);
  }
  const body = bodyFor('/v1/chat/completions', { model: 'old-chat' });
  t.like(await (await send('/openai/v1/chat/completions', key, body)).json(), { model: 'old-chat' });
});

/** The JSON that a command prints. */
async function runShell(command: string, key: string): Promise<unknown> {
  const { stdout } = await promisify(execFile)('bash', ['-c', command], { env: { ...process.env, KEY: key } });
  return JSON.parse(stdout);
}

for (const signal of ['SIGTERM', 'SIGINT'] as const) {
  test.serial(`${signal} to npm start, sent to npm only, ends every process of the stack`, async (t) => {
    const started = await startScript(t, 'start');
    t.is((await fetch(`${started.url}/v1/models`)).status, 401, 'it serves');
    await endsEverything(t, started, signal);
  });
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
