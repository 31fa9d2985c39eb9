import test from 'ava';
import type { InferenceJob } from '../../../shared/jobs/inference-job.ts';
import { bodyFor } from '../../../workers/backend-client/body-for.ts';
import type { CallBackend } from '../../../workers/backend-client/call-backend.ts';
import { answerStream, answerWhole } from '../../../workers/failover/answer-request.ts';
import { countPromptTokens, countTokens } from '../../../workers/failover/count-tokens.ts';
import { textOfBody } from '../../../workers/replies/send-pieces.ts';
import { answerFor, type Fault, startModelServer } from '../../stack/model-server.ts';
import { roomFor } from '../../support/answer-room.ts';
import { openBackend } from '../../support/backend-calls.ts';
import { rawAnswer, startRawBackend } from '../../support/raw-backend.ts';
import { jobFor } from '../../support/worker-side.ts';

const tools = ['weather', 'time'].map((name) => ({ type: 'function', function: { name } }));
const asking = (content: string, more: Record<string, unknown> & { n?: number } = {}) => ({
  messages: [{ role: 'user', content }],
  ...more,
});
const plain = asking('Grüße, 東京!');
const expected = answerFor(plain.messages);
const short = { firstTokenMs: 300, idleMs: 300 };

type Request = Record<string, unknown> & { n?: number };

type Given = {
  url: string;
  endpoint?: string;
  promptEstimate?: number;
  request?: Request;
  limit?: number | undefined;
  assembled?: boolean;
  timeouts?: Partial<typeof short>;
};

/** Gets a whole answer from one backend, as a worker does. */
async function ask({ url, request = plain, limit = 4_096, assembled = true, timeouts = {}, ...given }: Given) {
  await using backend = openBackend(url, timeouts);
  const called = { payload: JSON.stringify(request), choices: request.n ?? 1, outputTokensMax: limit };
  const job: InferenceJob = jobFor('no stream', { ...called, assembled, ...given });
  const firstTokens: { isDelivered: boolean }[] = [];
  const call = {
    ...backend.call(false, AbortSignal.timeout(30_000)),
    body: bodyFor(job, { url, location: 'on-prem' }),
  };
  const answer = await answerWhole({
    ...{ job, call, callBackend: backend.callBackend, reply: noReply },
    onCalling() {},
    onFirstToken: (token) => firstTokens.push(token),
  });
  const { body = '', usage, isOverLimit } = answer;
  return { answer: JSON.parse(textOfBody(body)), usage, isOverLimit, firstTokens };
}

const unexpected = () => {
  throw new Error('a part of a whole answer was sent before its end');
};
const noReply = { started: unexpected, chunk: unexpected, end: unexpected, error: unexpected, interrupted: unexpected };

async function faultOf(given: Given): Promise<unknown> {
  try {
    return await ask(given);
  } catch (error) {
    return (error as { fault?: string }).fault ?? error;
  }
}

const requests: Record<string, Request> = {
  text: plain,
  'text that is cut short': asking('cut me'),
  'several choices': asking('Hi', { n: 3 }),
  'probabilities of tokens': asking('Hi 東京', { n: 2, logprobs: true }),
  'calls of tools': asking('Please call weather and call time', { tools, n: 2 }),
  'a refusal': asking('Please refuse to answer'),
  'a refusal with probabilities': asking('Please refuse to answer', { logprobs: true }),
  reasoning: asking('Please think aloud', { n: 2 }),
};

const limits: Record<string, number> = { 'text that is cut short': 20 };

for (const [what, request] of Object.entries(requests)) {
  test(`${what}: the assembled answer equals the backend's whole answer`, async (t) => {
    await using server = await startModelServer({ name: 'a' });
    const limit = limits[what];
    const assembled = await ask({ url: server.url, request, limit });
    const whole = await ask({ url: server.url, request, limit, assembled: false });
    if (limit !== undefined) t.is(whole.answer.choices[0].finish_reason, 'length');
    t.deepEqual(comparable(assembled.answer), comparable(whole.answer));
    t.deepEqual(assembled.usage, whole.usage);
    t.deepEqual(
      server.calls().map(({ stream }) => stream),
      [true, false],
    );
    t.deepEqual(
      assembled.firstTokens.map(({ isDelivered }) => isDelivered),
      [false],
      'nothing was sent, so another backend can take over',
    );
    t.deepEqual(whole.firstTokens, []);
  });
}

/** Each call has its own id, and its own second. */
function comparable(answer: Record<string, unknown>): object {
  const { id, created, ...rest } = answer;
  return { ...rest, id: typeof id, created: typeof created };
}

test('an assembled answer without reported usage has the counted usage', async (t) => {
  await using server = await startModelServer({ name: 'a' });
  server.fail({ noUsage: true });
  const { answer, usage } = await ask({ url: server.url });
  const promptTokens = await countPromptTokens({ endpoint: '/v1/chat/completions', payload: JSON.stringify(plain) });
  const completionTokens = await countTokens(expected);
  t.deepEqual(usage, { promptTokens, completionTokens, cachedTokens: 0, estimated: true });
  t.like(answer.usage, { prompt_tokens: promptTokens, completion_tokens: completionTokens });
});

test('of text that repeats the prompt, the prompt is taken off as it counts, and not as it is charged', async (t) => {
  const prompt = 'საქართველოში ცხოვრება კარგია და ხალხი '.repeat(20);
  const written = 'the answer of the model '.repeat(100);
  const request = { prompt, echo: true, n: 2 };
  const promptTokens = await countPromptTokens({ endpoint: '/v1/completions', payload: JSON.stringify(request) });
  const choices = [0, 1].map((index) => ({ index, text: prompt + written, finish_reason: 'stop' }));
  const body = JSON.stringify({ id: 'x', object: 'text_completion', created: 1, choices });
  await using server = await startRawBackend((socket) => socket.end(rawAnswer(body, { type: 'application/json' })));
  const given = { endpoint: '/v1/completions', assembled: false, promptEstimate: 5 * promptTokens };
  const { usage } = await ask({ url: server.url, request, ...given });
  t.is(usage.promptTokens, Math.ceil(2.5 * promptTokens));
  const all = await countTokens([prompt + written, prompt + written].join('\n'));
  t.is(usage.completionTokens, all - 2 * promptTokens);
  t.true(usage.completionTokens > 900);
});

const failing: [Fault, string][] = [
  [{ hang: true }, 'first_token_timeout'],
  [{ stallAfterChunks: 0 }, 'first_token_timeout'],
  [{ stallAfterChunks: 3 }, 'idle_timeout'],
  [{ cutAfterChunks: 3 }, 'connection'],
  [{ endAfterChunks: 3 }, 'interrupted'],
  [{ badEvents: true }, 'unreadable'],
  [{ invalidUtf8: true }, 'unreadable'],
  [{ garbage: 'json' }, 'unreadable'],
  [{ garbage: 'html' }, 'unreadable'],
  [{ status: 422 }, 'status'],
];

function timeoutsFor(outcome: string): Partial<typeof short> {
  if (outcome === 'idle_timeout') return { idleMs: short.idleMs };
  return outcome === 'first_token_timeout' ? short : {};
}

for (const [fault, outcome] of failing) {
  test(`an assembled answer fails with ${outcome} at ${JSON.stringify(fault)}, and leaves no open call`, async (t) => {
    await using server = await startModelServer({ name: 'a' });
    server.fail(fault);
    // On a busy machine, an immediate failure can take longer than a timeout that is short enough for a test.
    const timeouts = timeoutsFor(outcome);
    t.is(await faultOf({ url: server.url, timeouts }), outcome);
    t.not((await server.waitForCall(({ state }) => state !== 'running')).state, 'running');
  });
}

test('an answer without [DONE] is complete when all its choices have ended, and not when one of two has', async (t) => {
  const token = (finish_reason: string | null) =>
    `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content: 'a' }, finish_reason }] })}\n\n`;
  await using server = await startRawBackend((socket) => socket.write(rawAnswer(token(null) + token('stop'))));
  const one = await ask({ url: server.url });
  t.is(one.answer.choices[0].message.content, 'aa');
  t.is(await faultOf({ url: server.url, request: asking('Hi', { n: 2 }) }), 'interrupted');
});

test('an assembled message that reached its own limit within the arguments of a tool is an answer', async (t) => {
  const usage = { input_tokens: 5, output_tokens: 1 };
  const events = [
    { type: 'message_start', message: { id: 'msg_1', type: 'message', role: 'assistant', content: [], usage } },
    { type: 'content_block_start', index: 0, content_block: { type: 'tool_use', id: 'a', name: 'f', input: {} } },
    { type: 'content_block_delta', index: 0, delta: { type: 'input_json_delta', partial_json: '{"a":"lo' } },
    { type: 'content_block_stop', index: 0 },
    { type: 'message_delta', delta: { stop_reason: 'max_tokens' }, usage: { output_tokens: 20 } },
    { type: 'message_stop' },
  ];
  const text = events.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`).join('');
  await using server = await startRawBackend((socket) => socket.end(rawAnswer(text)));
  const { answer, usage: used } = await ask({ url: server.url, endpoint: '/v1/messages' });
  t.like(answer, { stop_reason: 'max_tokens', content: [{ name: 'f', input: {} }] });
  t.deepEqual(used, { promptTokens: 5, completionTokens: 20, cachedTokens: 0, estimated: false });
});

test('a whole answer to a request for a stream is accepted', async (t) => {
  const message = { role: 'assistant', content: 'Yes', refusal: null };
  const choice = { index: 0, message, logprobs: null, finish_reason: 'stop' };
  const answer = { id: 'x', object: 'chat.completion', created: 1, choices: [choice] };
  const usage = { prompt_tokens: 1, completion_tokens: 2, total_tokens: 3 };
  for (const type of ['application/json', 'Application/JSON; charset=utf-8']) {
    const body = JSON.stringify({ ...answer, usage });
    const head = `HTTP/1.1 200 OK\r\ncontent-type: ${type}\r\ncontent-length: ${body.length}\r\n\r\n`;
    await using server = await startRawBackend((socket) => socket.write(head + body));
    const given = await ask({ url: server.url });
    t.deepEqual(given.answer, { ...answer, usage, model: 'medium-chat' });
    t.like(given.usage, { promptTokens: 1, completionTokens: 2, estimated: false });
  }
});

const backend = { url: 'http://127.0.0.1:1/v1', location: 'on-prem' } as const;
const item = { id: 'msg_1', type: 'message', role: 'assistant', content: [] };
const place = { item_id: 'msg_1', output_index: 0, content_index: 0 };

/** Events of a server that sends each text whole, and reports no usage. */
const wholeTexts: Record<string, (text: string) => object[]> = {
  '/v1/responses': (text) => [
    { type: 'response.created', response: { id: 'resp_1' } },
    { type: 'response.output_item.added', output_index: 0, item },
    { type: 'response.output_text.done', ...place, text },
    { type: 'response.output_item.done', output_index: 0, item: { ...item, content: [{ type: 'output_text', text }] } },
    { type: 'response.completed', response: { id: 'resp_1', output: [] } },
  ],
  '/v1/messages': (text) => [
    { type: 'message_start', message: { id: 'msg_1', usage: { input_tokens: 3, output_tokens: 1 } } },
    { type: 'content_block_start', index: 0, content_block: { type: 'text', text } },
    { type: 'content_block_stop', index: 0 },
    { type: 'message_delta', delta: { stop_reason: 'end_turn' } },
    { type: 'message_stop' },
  ],
};

const isComplete = /^event: (response\.completed|response\.incomplete|message_stop)$/m;

async function streamedTexts(endpoint: string, text: string) {
  const callBackend: CallBackend = {
    whole: () => Promise.reject(new Error('not a stream')),
    async stream(_call, { take }) {
      for (const event of wholeTexts[endpoint]?.(text) ?? []) if (await take(JSON.stringify(event))) return 'cut';
      return 'ended';
    },
  };
  const body = JSON.stringify({ input: 'Hi', messages: [{ role: 'user', content: 'Hi' }] });
  const job = jobFor('no stream', { endpoint, payload: body, choices: 1, outputTokensMax: 10 });
  const call = { backend, path: '', headers: {}, apiKey: undefined, requestId: 'r', body: '', room: roomFor() };
  const waits = { signal: AbortSignal.timeout(30_000), onHead() {}, onToken() {}, isBusy: () => false };
  let sent = '';
  const { usage, isOverLimit, finalEvents } = await answerStream({
    ...{ job, callBackend, call: { ...call, ...waits }, onCalling() {}, onFirstToken() {} },
    reply: {
      async chunk(ready) {
        sent += ready;
      },
    },
  });
  return { usage, isOverLimit, sent, finalEvents };
}

for (const endpoint of Object.keys(wholeTexts)) {
  test(`text that comes in one piece is charged and limited, if no usage is reported: ${endpoint}`, async (t) => {
    const short = await streamedTexts(endpoint, ' a'.repeat(7));
    t.like(short, { isOverLimit: false, usage: { completionTokens: 7, estimated: true } });
    t.true(short.sent.includes(' a a a a a a a"'));

    const long = await streamedTexts(endpoint, ' a'.repeat(3 * 10 + 256 + 1));
    t.like(long, { isOverLimit: true, usage: { completionTokens: 10, estimated: true } });
    t.false(long.sent.includes(' a a'));
    t.regex(long.finalEvents ?? '', /max_output_tokens|max_tokens/);
    for (const { sent, finalEvents = '' } of [short, long]) {
      t.regex(finalEvents, isComplete);
      t.notRegex(sent, isComplete, 'it is sent with the end');
    }
  });
}

const body = JSON.stringify({ input: 'Hi', prompt: 'Hi', messages: [{ role: 'user', content: 'Hi' }] });

/** Asks for a stream, and gets this whole answer. */
async function streamed(endpoint: string, answer: object, choices = 1) {
  const callBackend: CallBackend = {
    whole: () => Promise.reject(new Error('not a stream')),
    async stream(_call, { takeWhole }) {
      takeWhole(JSON.stringify(answer));
      return 'whole';
    },
  };
  const job = jobFor('no stream', { endpoint, payload: body, choices, outputTokensMax: 10 });
  const call = { backend, path: '', headers: {}, apiKey: undefined, requestId: 'r', body: '', room: roomFor() };
  const waits = { signal: AbortSignal.timeout(30_000), onHead() {}, onToken() {}, isBusy: () => false };
  let sent = '';
  const { finalEvents = '' } = await answerStream({
    ...{ job, callBackend, call: { ...call, ...waits }, onCalling() {}, onFirstToken() {} },
    reply: {
      async chunk(ready) {
        sent += ready;
      },
    },
  });
  return { sent, finalEvents };
}

const [chat, text, messages, responses] = ['chat/completions', 'completions', 'messages', 'responses'].map(
  (name) => `/v1/${name}`,
) as [string, string, string, string];
const says = (content: string, finish_reason?: string) => ({ message: { content }, finish_reason });

const unfinished: Record<string, [endpoint: string, answer: object, fault: string, choices?: number]> = {
  'a chat without choices': [chat, { choices: [] }, 'unreadable'],
  'an empty choice of a chat without a reason': [chat, { choices: [says('')] }, 'interrupted'],
  'an empty choice of a completion without a reason': [text, { choices: [{ text: '' }] }, 'interrupted'],
  'two choices, of which one has a reason': [chat, { choices: [says('a', 'stop'), says('b')] }, 'interrupted', 2],
  'a completion without choices': [text, { choices: [] }, 'unreadable'],
  'a message without a stop_reason': [messages, { type: 'message', content: [] }, 'interrupted'],
  'a response in progress': [responses, { status: 'in_progress', output: [] }, 'unreadable'],
};
for (const [title, [endpoint, answer, fault, choices]] of Object.entries(unfinished)) {
  test(`no answer of a whole JSON to a request for a stream: ${title}`, async (t) => {
    t.is(await streamed(endpoint, answer, choices).catch(({ fault }) => fault), fault);
  });
}

for (const [endpoint, choice] of [
  [chat, says('Yes')],
  [text, { text: 'Yes' }],
] as const) {
  test(`a whole answer without a reason ends with \`stop\` in a stream: ${endpoint}`, async (t) => {
    const { sent, finalEvents } = await streamed(endpoint, { choices: [choice] });
    t.true(sent.includes('Yes'));
    t.is(JSON.parse(finalEvents.trim().slice('data: '.length)).choices[0].finish_reason, 'stop');
  });
}

test('a whole answer with a reason ends with that reason only, also an empty one', async (t) => {
  for (const content of ['', 'Yes']) {
    const { sent, finalEvents } = await streamed(chat, { choices: [says(content, 'length')] });
    t.true(sent.includes('"finish_reason":"length"'));
    t.is(finalEvents, '');
  }
});

test('an empty message and an empty response that say that they ended are answers', async (t) => {
  const message = await streamed(messages, { type: 'message', content: [], stop_reason: 'end_turn' });
  t.regex(message.finalEvents, /^event: message_stop$/m);
  for (const status of [undefined, null, 'completed']) {
    const response = await streamed(responses, { status, output: [] });
    t.regex(response.finalEvents, /^event: response\.completed$/m);
  }
});
