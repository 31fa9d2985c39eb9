import test from 'ava';
import {
  codeFor,
  type Draft,
  type Language,
  languages,
  type TriedEndpoint,
} from '../../../ingress/console/try-it/tried-endpoint.ts';
import { modelsWith, offeredEndpoints, usableModels } from '../../../ingress/console/try-it/tried-endpoints.ts';
import { chat } from '../../../ingress/console/try-it/try-chat.ts';
import { completions } from '../../../ingress/console/try-it/try-completions.ts';
import { embeddings } from '../../../ingress/console/try-it/try-embeddings.ts';
import { messages } from '../../../ingress/console/try-it/try-messages.ts';
import { rerank } from '../../../ingress/console/try-it/try-rerank.ts';
import { responses } from '../../../ingress/console/try-it/try-responses.ts';
import { endpoints } from '../../../shared/endpoints/endpoints.ts';

const all: readonly TriedEndpoint[] = [chat, responses, messages, completions, embeddings, rerank];
const user = { role: 'user' as const, content: `It's "me"\n` };
const draft: Draft = {
  model: 'm',
  messages: [user],
  input: 'a text',
  documents: 'one\n\n two ',
  maxTokens: '',
  temperature: '',
  topP: '',
};
const data = (value: object) => JSON.stringify(value);

test('a request has only the fields that were filled in, and is valid for its endpoint', (t) => {
  const stream = { stream: true, stream_options: { include_usage: true } };
  t.deepEqual(chat.requestOf(draft) as object, { model: 'm', messages: [user], ...stream });
  const system = { role: 'system' as const, content: 'Be brief.' };
  const full = { ...draft, messages: [system, { role: 'system' as const, content: '  ' }, user], maxTokens: '7' };
  t.deepEqual(chat.requestOf(full) as object, { model: 'm', messages: [system, user], max_tokens: 7, ...stream });
  t.deepEqual(responses.requestOf(full) as object, {
    model: 'm',
    input: [system, user],
    max_output_tokens: 7,
    stream: true,
  });
  t.deepEqual(messages.requestOf(full) as object, {
    model: 'm',
    max_tokens: 7,
    system: 'Be brief.',
    messages: [user],
    stream: true,
  });
  t.is(messages.requestOf(draft).max_tokens, 1_000, 'it is required');
  t.deepEqual(embeddings.requestOf(full) as object, { model: 'm', input: 'a text' });
  t.deepEqual(rerank.requestOf(full) as object, { model: 'm', query: 'a text', documents: ['one', 'two'] });
  t.deepEqual(completions.requestOf(full) as object, { model: 'm', prompt: 'a text', max_tokens: 7, ...stream });
  const sampled = { ...draft, temperature: '0.5', topP: '0' };
  for (const generating of [chat, responses, messages, completions]) {
    t.like(generating.requestOf(sampled), { temperature: 0.5, top_p: 0 }, generating.label);
  }
  for (const other of [embeddings, rerank]) t.false('temperature' in other.requestOf(sampled), other.label);
  for (const tried of all) {
    const endpoint = endpoints.find(({ path }) => path === tried.path);
    for (const one of [draft, full, sampled]) t.true(endpoint?.request.schema.safeParse(tried.requestOf(one)).success);
  }
});

test('the events of each endpoint give text, tokens and the end', (t) => {
  t.deepEqual(chat.read('[DONE]'), { isEnd: true });
  t.like(chat.read(data({ choices: [{ delta: { content: 'Hi' }, finish_reason: 'stop' }] })), {
    text: 'Hi',
    finishReason: 'stop',
  });
  const chatUsage = { prompt_tokens: 1, completion_tokens: 2, total_tokens: 3 };
  t.like(chat.read(data({ choices: [], usage: chatUsage })), { tokens: { prompt: 1, completion: 2, total: 3 } });

  t.deepEqual(responses.read(data({ type: 'response.created' })), {});
  t.deepEqual(responses.read(data({ type: 'response.output_text.delta', delta: 'Hi' })), { text: 'Hi' });
  const usage = { input_tokens: 1, output_tokens: 2, total_tokens: 3 };
  t.deepEqual(responses.read(data({ type: 'response.completed', response: { status: 'completed', usage } })), {
    isEnd: true,
    finishReason: 'completed',
    tokens: { prompt: 1, completion: 2, total: 3 },
  });
  const incomplete = { status: 'incomplete', incomplete_details: { reason: 'max_output_tokens' } };
  t.like(responses.read(data({ type: 'response.incomplete', response: incomplete })), {
    isEnd: true,
    finishReason: 'max_output_tokens',
  });

  t.deepEqual(messages.read(data({ type: 'ping' })), {});
  t.like(messages.read(data({ type: 'message_start', message: { usage: { input_tokens: 1, output_tokens: 0 } } })), {
    tokens: { prompt: 1, completion: 0 },
  });
  t.like(messages.read(data({ type: 'content_block_delta', delta: { type: 'text_delta', text: 'Hi' } })), {
    text: 'Hi',
  });
  const delta = { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 2 } };
  t.deepEqual(messages.read(data(delta)), { tokens: { completion: 2 }, finishReason: 'end_turn' });
  t.deepEqual(messages.read(data({ type: 'message_stop' })), { isEnd: true });
});

test('an interrupted stream of each endpoint is recognized', (t) => {
  const error = { code: 'UPSTREAM_INTERRUPTED', message: 'It broke off.' };
  t.like(chat.read(data({ error })), { failure: error });
  t.like(responses.read(data({ type: 'error', ...error })), { failure: error });
  t.like(messages.read(data({ type: 'error', error })), { failure: error });
});

test('an embedding is shown by its length and its first numbers', (t) => {
  const answer = {
    data: [{ embedding: [0.5, -0.25] }, { embedding: Array(9).fill(1) }],
    usage: { prompt_tokens: 4, total_tokens: 4 },
  };
  t.deepEqual(embeddings.read(data(answer)), {
    text: `Vector of 2 numbers: 0.5000, -0.2500\nVector of 9 numbers: ${Array(8).fill('1.0000').join(', ')}, …`,
    tokens: { prompt: 4, total: 4 },
    isEnd: true,
  });
});

test('no shown program contains a key; each reads it from the environment, and uses the recommended address', (t) => {
  const keys = { curl: '"authorization: Bearer $KEY"', node: 'process.env.KEY', python: 'os.environ["KEY"]' } as const;
  for (const endpoint of all) {
    const isAnthropic = endpoint.path === messages.path;
    for (const language of Object.keys(languages) as Language[]) {
      const code = codeFor(endpoint, language, endpoint.requestOf(draft), 'https://api.example');
      const about = `${endpoint.label}: ${language}`;
      t.true(code.includes(keys[language]), about);
      t.false(code.includes('svc_'), about);
      const base = isAnthropic ? '"https://api.example"' : '"https://api.example/openai/v1"';
      const isWithoutSdk = language === 'curl' || endpoint.path === rerank.path;
      t.true(code.includes(isWithoutSdk ? `https://api.example${endpoint.path}` : base), about);
    }
  }
});

test('shell metacharacters are quoted', (t) => {
  const code = codeFor(chat, 'curl', chat.requestOf(draft), 'https://api.example');
  t.true(code.includes(`It'\\''s \\"me\\"\\n`));
});

const model = (id: string, ...names: string[]) =>
  ({ id, object: 'model', created: 0, owned_by: 'service', tier: 'guest', endpoints: names }) as const;

test('only endpoints and models are offered that belong together', (t) => {
  const models = [model('a', 'chat', 'messages'), model('b', 'embeddings', 'unknown'), model('c', 'chat')];
  t.deepEqual(Object.keys(offeredEndpoints(models)), ['chat', 'messages', 'embeddings']);
  t.deepEqual(modelsWith(models, 'chat'), ['a', 'c']);
  t.deepEqual(offeredEndpoints([]), {});
});

test('a key is tried with the models and endpoints that it may use', (t) => {
  const models = [model('a', 'chat', 'messages'), model('b', 'embeddings', 'rerank'), model('c', 'chat')];
  const usable = (paths: string[] | null, names: string[] | null) =>
    usableModels(models, { endpoints: paths, models: names }).map(({ id, endpoints }) => [id, ...endpoints]);
  t.is(usableModels(models, undefined).length, 3);
  t.deepEqual(usable(null, ['c', 'b']), [
    ['b', 'embeddings', 'rerank'],
    ['c', 'chat'],
  ]);
  t.deepEqual(usable(['/v1/messages', '/v1/embeddings'], null), [['a', 'messages'], ['b', 'embeddings'], ['c']]);
  t.is(usable(null, ['an-alias']).length, 3);
  t.is(usable(['/v1/rerank'], null).length, 3, 'none of them can be tried');
});
