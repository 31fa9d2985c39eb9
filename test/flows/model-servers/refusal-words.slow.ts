import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import test from 'ava';
import { openScripted } from '../../support/endpoints/open-scripted.ts';
import { chunk, type Scripted, saidBy } from '../../support/endpoints/scripted-backend.ts';
import { openRedis } from '../../support/open-redis.ts';
import { contentsOf } from '../../support/redis-contents.ts';

/** What a server writes of a request into its refusals. No request has it, so that what keeps requests is not found. */
const quoted = 'quoted-prompt-5d0e';
const error = (code: number, type: string) => ({ message: `No: ${quoted}`, type, code, param: quoted });
const status = (code: number, type: string) => (): Scripted => ({ status: code, body: { error: error(code, type) } });
const firstEvent = (code: number, type: string) => () => ({ events: [{ type: 'error', error: error(code, type) }] });

const scripts = {
  'refused-400': status(400, 'invalid_request_error'),
  'failed-500': status(500, 'server_error'),
  'busy-429': status(429, quoted),
  'refused-in-stream': firstEvent(400, 'invalid_request_error'),
  'failed-in-stream': firstEvent(500, quoted),
  'failed-after-text': (_asked: object, _text: string, path: string) => {
    const begun = path === '/chat/completions' ? [chunk({ content: 'Hi' })] : saidBy(path).slice(0, 4);
    return { events: [...begun, { type: 'error', error: error(500, quoted) }] };
  },
};
const names = Object.keys(scripts) as (keyof typeof scripts)[];
const { account, stack } = openScripted(test, scripts, {
  models: Object.fromEntries(names.map((name) => [name, [name]])),
  timeouts: { queue_ms: 2_000 },
});

const messages = [{ role: 'user', content: 'Hello' }];
const asks = [
  ['/v1/chat/completions', { messages }],
  ['/v1/messages', { messages, max_tokens: 50 }],
  ['/v1/responses', { input: 'Hello' }],
] as const;

async function filesWith(text: string, directory: string): Promise<string[]> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  const found = await Promise.all(files.map(async (file) => (await readFile(file, 'latin1')).includes(text) && file));
  return found.filter((file) => file !== false);
}

test('what a server quotes of a request in its refusals reaches the client of that request, and stays nowhere', async (t) => {
  const asking = names.map(async (model) => {
    const service = await account();
    const wishes = asks.flatMap(([path, body]) =>
      [true, false].map((stream) => [path, { ...body, model, stream }] as const),
    );
    const seen = wishes.map(async ([path, wish]) => {
      const answer = await service.post(path, wish);
      const text = await answer.text();
      const isWorded = model.startsWith('refused');
      t.is(text.includes(quoted), isWorded, `${path} ${JSON.stringify(wish)}: ${answer.status} ${text}`);
      if (isWorded) t.is(answer.status, 400);
    });
    await Promise.all(seen);
    await service.usageWith(2 * asks.length);
  });
  await Promise.all(asking);

  const redis = openRedis(stack().redisUrl);
  t.teardown(() => redis.disconnect());
  t.false((await contentsOf(redis)).includes(quoted));
  const store = await filesWith(quoted, stack().directory);
  t.deepEqual(
    store.filter((file) => !/appendonly|\.aof$/.test(file)),
    [],
    'Redis keeps a log of all replies',
  );
  for (const { pid, logs, errors } of stack().started()) {
    const lines = [...logs.map((line) => JSON.stringify(line)), errors()];
    t.deepEqual(
      lines.filter((line) => line.includes(quoted)),
      [],
      `the log of process ${pid}`,
    );
  }
});
