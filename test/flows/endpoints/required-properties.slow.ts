import { setTimeout as sleep } from 'node:timers/promises';
import test from 'ava';
import { type Stack, startStack } from '../../stack/stack.ts';
import { startBareBackend } from '../../support/endpoints/bare-backend.ts';
import { type Account, openAccount } from '../../support/endpoints/open-account.ts';
import * as openai from '../../support/endpoints/openai-required.ts';
import { missingIn } from '../../support/endpoints/openai-required.ts';
import { everyEndpoint } from '../../support/every-endpoint.ts';
import { line } from '../../support/file-client.ts';

const { everything } = everyEndpoint;
const models = {
  full: { ...everything, backends: ['onprem-b'] },
  bare: { ...everything, backends: ['onprem-a'] },
  cut: { ...everything, backends: ['onprem-b'] },
};
const parts = new AsyncDisposableStack();
let stack: Stack;
let account: Account;

test.before(async () => {
  const { url } = parts.use(await startBareBackend());
  stack = parts.use(await startStack({ models, backends: { 'onprem-a': { url } } }));
  account = await openAccount(stack, 'required');
});
test.after.always(() => parts.disposeAsync());

const contents = ['Hi', 'think aloud', 'refuse to answer', 'call weather'];
const asked = (content: string) => ({ messages: [{ role: 'user', content }] });
const chatTools = [{ type: 'function', function: { name: 'weather', parameters: {} } }];
const tools = [{ type: 'function', name: 'weather', parameters: {} }];
const withUsage = { stream: true, stream_options: { include_usage: true } };

/** Bodies of each endpoint, and what each answer and each event of a stream must have. */
const endpoints: Record<string, { bodies: object[]; whole: openai.RequiredMembers; event?: openai.RequiredMembers }> = {
  '/v1/chat/completions': {
    bodies: [
      ...contents.map((content) => ({ ...asked(content), tools: chatTools, logprobs: true, n: 2 })),
      { ...asked('Hi'), modalities: ['text', 'audio'] },
    ],
    whole: openai.chatCompletion,
    event: openai.chatChunk,
  },
  '/v1/completions': {
    bodies: [{ prompt: 'Hi' }, { prompt: ['Hi', 'a'], n: 2, logprobs: 1 }],
    whole: openai.completion,
    event: openai.completion,
  },
  '/v1/embeddings': {
    bodies: [{ input: 'Hi' }, { input: ['a', 'b'], encoding_format: 'base64' }],
    whole: openai.embeddingList,
  },
  '/v1/responses': {
    bodies: [...contents.map((input) => ({ input, tools })), { input: 'repeat 9', max_output_tokens: 16 }],
    whole: openai.response,
    event: openai.responseEvent,
  },
};

type Batch = { id: string; status: string };

async function jsonOf(response: Response): Promise<object> {
  const text = await response.text();
  if (!response.ok) throw new Error(`${response.status} ${text}`);
  return JSON.parse(text);
}

function eventsIn(text: string): object[] {
  return [...text.matchAll(/^data: (\{.*)$/gm)].map(([, data = '']) => JSON.parse(data));
}

for (const [path, { bodies, whole, event }] of Object.entries(endpoints)) {
  for (const model of ['full', 'bare']) {
    test(`${path}: an answer of a ${model} server has every property that OpenAI requires`, async (t) => {
      for (const body of bodies) {
        const answer = await jsonOf(await account.post(path, { model, ...body }));
        t.deepEqual(missingIn(answer, whole), [], JSON.stringify(answer));
        t.like(answer, { model });
      }
    });

    if (event === undefined) continue;
    test(`${path}: each event of a ${model} server has every property that OpenAI requires`, async (t) => {
      const options = path === '/v1/responses' ? { stream: true } : withUsage;
      for (const body of bodies) {
        const { modalities: _, ...rest } = body as { modalities?: unknown };
        const text = await (await account.post(path, { model, ...rest, ...options })).text();
        const events = eventsIn(text);
        t.true(events.length > 2, text);
        for (const one of events) t.deepEqual(missingIn(one, event), [], JSON.stringify(one));
        const last = events.at(-1) as { usage?: object; response?: { usage?: object } }; // one of the forms
        t.truthy(last.usage ?? last.response?.usage, text);
      }
    });
  }
}

test('a response that is cut, and one that breaks off, have every property in each event', async (t) => {
  const [, server] = stack.modelServers;
  const types = new Set<unknown>();
  for (const fault of [{ ignoresLimit: true, times: 1 }, { cutAfterChunks: 3 }]) {
    server.fail(fault, 'cut');
    const body = { model: 'cut', input: 'think aloud, repeat 50', max_output_tokens: 20, stream: true };
    const events = eventsIn(await (await account.post('/v1/responses', body)).text()) as { type: string }[];
    for (const one of events) t.deepEqual(missingIn(one, openai.responseEvent), [], JSON.stringify(one));
    types.add(events.at(-1)?.type);
  }
  t.deepEqual([...types], ['response.incomplete', 'error']);
});

test('models have every property, in the list and alone', async (t) => {
  const headers = { authorization: `Bearer ${account.key}` };
  for (const base of ['/v1', '/openai/v1']) {
    t.deepEqual(
      missingIn(await jsonOf(await fetch(`${account.url}${base}/models`, { headers })), openai.modelList),
      [],
    );
    t.deepEqual(
      missingIn(await jsonOf(await fetch(`${account.url}${base}/models/full`, { headers })), openai.model),
      [],
    );
  }
});

test('files and batches have every property, from their creation to their end', async (t) => {
  const headers = { authorization: `Bearer ${account.key}` };
  const get = async (path: string) => jsonOf(await fetch(`${account.url}/openai/v1${path}`, { headers }));
  const form = new FormData();
  form.set('purpose', 'batch');
  form.set('file', new Blob([line('a', { model: 'full' })]), 'in.jsonl');
  const uploaded = await jsonOf(await fetch(`${account.url}/openai/v1/files`, { method: 'POST', headers, body: form }));
  const { id } = uploaded as { id: string };
  for (const file of [uploaded, await get(`/files/${id}`)]) t.deepEqual(missingIn(file, openai.file), []);
  const asked = { input_file_id: id, endpoint: '/v1/chat/completions', completion_window: '24h' };
  const batchOf = async (response: Response) => (await jsonOf(response)) as Batch; // the service's own answer
  const create = async () => batchOf(await account.post('/openai/v1/batches', asked));
  /** Every state that is seen until the batch has ended. */
  async function statesOf(created: Batch): Promise<Batch[]> {
    const seen = [created];
    while (!['completed', 'cancelled'].includes(seen.at(-1)?.status ?? '')) {
      await sleep(50);
      seen.push((await get(`/batches/${created.id}`)) as Batch); // the service's own answer
    }
    return seen;
  }
  const first = await statesOf(await create());
  const [created, ended] = [first[0], first.at(-1)];
  t.like(created, { model: null, usage: null }, 'OpenAI does not require these, but its clients read them');
  const usage = { input_tokens_details: { cached_tokens: 0 }, output_tokens_details: { reasoning_tokens: 0 } };
  t.like(ended, { status: 'completed', model: 'full', usage });
  const second = await create();
  const cancelled = await batchOf(await account.post(`/openai/v1/batches/${second.id}/cancel`, {}));
  const seen = [...first, second, ...(await statesOf(cancelled))];
  for (const each of seen) t.deepEqual(missingIn(each, openai.batch), [], JSON.stringify(each));
  t.deepEqual(missingIn(await get('/batches'), openai.batchList), []);
  t.deepEqual(missingIn(await get('/files'), openai.fileList), []);
  const deleted = await fetch(`${account.url}/openai/v1/files/${id}`, { method: 'DELETE', headers });
  t.deepEqual(missingIn(await jsonOf(deleted), openai.deletedFile), []);
});

test('empty lists have every property, too', async (t) => {
  const { key, url } = await openAccount(stack, 'required-empty');
  const headers = { authorization: `Bearer ${key}` };
  for (const [path, list] of [
    ['files', openai.fileList],
    ['batches', openai.batchList],
  ] as const)
    t.deepEqual(missingIn(await jsonOf(await fetch(`${url}/v1/${path}`, { headers })), list), []);
});

test('errors below /openai/v1 have every property, whatever is wrong', async (t) => {
  const body = { model: 'full', input: 'Hi' };
  const wrongs = await Promise.all([
    account.post('/openai/v1/responses', { ...body, input: 5 }),
    account.post('/openai/v1/responses', { ...body, model: 'large-chat' }),
    account.post('/openai/v1/responses', body, {}),
    account.post('/openai/v1/responses', '{'),
    account.post('/openai/v1/responses', { ...body, model: 'none' }),
    account.post('/openai/v1/nothing', body),
    account.post('/openai/v1/models', body),
    account.post('/openai/v1/messages', body),
  ]);
  for (const wrong of wrongs) {
    t.true(wrong.status >= 400);
    t.deepEqual(missingIn(await wrong.json(), openai.errorResponse), []);
  }
});
