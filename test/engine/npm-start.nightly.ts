import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import test from 'ava';
import { untilEnded } from '../stack/earlier-process.ts';
import { requestToken } from '../stack/identity-provider.ts';
import { readRunningStack } from '../stack/running-stack.ts';
import { skipTest } from '../support/skip-test.ts';
import { provideEngine } from './provide-engine.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const found = await provideEngine().catch((error: Error) => error);
const title = 'npm start -- --engine has engines for chats, vectors and ranks, and ends them';

/** A request of each kind of model. */
const requests = {
  '/v1/chat/completions': { model: 'small-chat', max_tokens: 8, messages: [{ role: 'user', content: 'Hello' }] },
  '/v1/embeddings': { model: 'small-embed', input: 'Hello' },
  '/v1/rerank': { model: 'small-rank', query: 'Hello', documents: ['winter', 'water'] },
};

if (found instanceof Error) skipTest(test, { title, reason: found.message });
else {
  test(title, async (t) => {
    const directory = await mkdtemp(join(tmpdir(), 'inference-engine-'));
    t.teardown(() => rm(directory, { recursive: true, force: true }));
    const started = spawn(process.execPath, ['test/stack/main.ts', '--engine', '--free-ports', '--data', directory], {
      cwd: root,
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    t.teardown(() => started.kill('SIGKILL'));
    let url = '';
    for await (const line of createInterface({ input: started.stdout })) {
      url = /^API +(\S+)/.exec(line)?.[1] ?? url;
      if (line.startsWith('Stop ')) break;
    }
    const { issuer, clientSecret, processes = [] } = await readRunningStack(directory);
    const engines = processes.filter(({ command }) => command === 'serve.py');
    t.is(engines.length, 5);
    t.regex(await readFile(join(directory, 'engine-plans.yaml'), 'utf8'), /small-rank/);

    const post = (path: string, bearer: string, body: object) =>
      fetch(`${url}${path}`, {
        method: 'POST',
        headers: { authorization: `Bearer ${bearer}`, 'content-type': 'application/json' },
        body: JSON.stringify(body),
      });
    const token = await requestToken({ issuer, clientSecret, account: 'engine-account' });
    const { key } = (await (await post('/v1/keys/developer', token, {})).json()) as { key: string };
    for (const [path, body] of Object.entries(requests)) {
      const answer = await post(path, key, body);
      t.is(answer.status, 200, await answer.text());
    }

    const ended = once(started, 'exit');
    started.kill('SIGTERM');
    await ended;
    for (const engine of engines) await untilEnded(engine);
  });
}
