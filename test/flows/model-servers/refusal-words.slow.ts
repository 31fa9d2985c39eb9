import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import test from 'ava';
import { openScripted } from '../../support/endpoints/open-scripted.ts';
import { chunk, type ScriptedAnswer, saidBy } from '../../support/endpoints/scripted-backend.ts';
import { openRedis } from '../../support/open-redis.ts';
import { contentsOf } from '../../support/redis-contents.ts';

/** What a server writes of a request into its refusals. No request has it, so that what keeps requests is not found. */
const quoted = 'quoted-prompt-5d0e';
const error = (code: number, type: string) => ({ message: `No: ${quoted}`, type, code, param: quoted });
const status = (code: number, type: string) => (): ScriptedAnswer => ({
  status: code,
  body: { error: error(code, type) },
});
const firstEvent = (code: number, type: string) => () => ({ events: [{ type: 'error', error: error(code, type) }] });

const says = (code: number, message: string, type = 'server_error') => ({
  status: code,
  body: { error: { message, type, code, param: quoted } },
});
const tooLong = `This model's maximum context length is 8 tokens. However, you sent 9 tokens: ${quoted}`;

const scripts = {
  'refused-400': status(400, 'invalid_request_error'),
  'refused-403': status(403, 'content_policy_violation'),
  'refused-501': status(501, 'not_supported_error'),
  'account-401': status(401, 'authentication_error'),
  'account-402': status(402, quoted),
  'account-403': status(403, 'permission_error'),
  'account-400': status(400, 'billing_error'),
  'absent-404': status(404, 'NotFoundError'),
  'failed-503': status(503, quoted),
  'loading-503': () => says(503, `Model ${quoted} is loading`),
  'too-long-400': () => says(400, tooLong, 'invalid_request_error'),
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
const queueMs = { 'busy-429': 2_000, 'loading-503': 2_000 };
const { account, stack } = openScripted(test, scripts, {
  models: Object.fromEntries(names.map((name) => [name, [name]])),
  queueMs,
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
      const isTooLong = model.startsWith('too-long');
      const isWorded = model.startsWith('refused');
      const about = `${path} ${JSON.stringify(wish)}: ${answer.status} ${text}`;
      // Below /v1/messages the words are those of Anthropic.
      if (!isTooLong) t.is(text.includes(quoted), isWorded, about);
      if (isTooLong || isWorded) t.is(answer.status, 400, about);
      // Not all requests for a server that is busy or loads reach it in time. Those that no worker has begun leave no record.
      const isAsked = !text.includes('waited too long in the queue');
      t.true(isAsked || model in queueMs, about);
      return isAsked;
    });
    const asked = (await Promise.all(seen)).filter(Boolean);
    await service.usageWith(asked.length);
  });
  await Promise.all(asking);

  for (const { operationsUrl } of [...stack().ingresses, ...stack().workers])
    t.false((await (await fetch(`${operationsUrl}/metrics`)).text()).includes(quoted), operationsUrl);
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
