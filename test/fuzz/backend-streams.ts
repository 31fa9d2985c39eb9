import fc from 'fast-check';
import type { Dispatcher } from 'undici';
import { BackendError } from '../../shared/endpoints/answers/backend-error.ts';
import type { QueuedCall } from '../../shared/jobs/inference-job.ts';
import type { TokenUsage } from '../../shared/jobs/replies.ts';
import { answerStream, answerWhole } from '../../workers/answers/answer-request.ts';
import { createCallBackend } from '../../workers/exchange/call-backend.ts';
import { inPieces } from './fake-request.ts';
import { type FuzzTarget, require } from './search/fuzz-target.ts';

const apiKey = 'backend-key-4711-0815';
const model = 'small-chat';
const outputTokensMax = 1_000;
const body = '{"messages":[{"role":"user","content":"Hello"}]}';
const timeouts = { connectMs: 60_000, firstTokenMs: 60_000, idleMs: 60_000, requestMs: 60_000, queueMs: 60_000 };
const backend = { url: 'http://127.0.0.1:9/v1', location: 'on-prem' } as const;

const deltas = fc.oneof(
  fc.record({ content: fc.oneof(fc.string({ unit: 'binary', maxLength: 20 }), fc.constant(null)) }),
  fc.record({ role: fc.constant('assistant'), reasoning_content: fc.string() }),
  fc.record({
    tool_calls: fc.array(fc.record({ index: fc.nat(3), id: fc.string(), function: fc.jsonValue() }), { maxLength: 3 }),
  }),
  fc.jsonValue({ maxDepth: 3 }),
);
const choices = fc.record(
  { index: fc.nat(2), delta: deltas, finish_reason: fc.constantFrom(null, 'stop', 'length', '') },
  { requiredKeys: ['delta'] },
);
const usages = fc.record({ prompt_tokens: fc.integer(), completion_tokens: fc.nat(3_000) });
const chunks = fc.record(
  {
    model: fc.constantFrom(model, 'other', ''),
    choices: fc.array(choices, { maxLength: 3 }),
    usage: fc.oneof(usages, fc.constant(null)),
  },
  { requiredKeys: ['choices'] },
);
const events = fc.oneof(
  { weight: 6, arbitrary: chunks.map((chunk) => `data: ${JSON.stringify(chunk)}`) },
  fc.constantFrom(
    ': waiting',
    'event: x',
    'data: [DONE]',
    'data: {"error":{"message":"no"}}',
    'data:',
    'id: 1\nretry: 5',
  ),
);
const streams = fc
  .tuple(fc.array(events, { minLength: 1, maxLength: 12 }), fc.constantFrom('\n\n', '\r\n\r\n', '\r\r'), fc.boolean())
  .map(([list, end, isEnded]) => [...list, ...(isEnded ? ['data: [DONE]'] : [])].map((one) => one + end).join(''));

/** The reply of a model server: an event stream, or a whole reply if it starts like JSON. */
export const backendStreams: FuzzTarget = {
  promise: 'any bytes give a client valid events or one declared failure, with the same result however they are split',
  words: [
    ...[
      'data: ',
      'data:',
      '\n\n',
      '\r\n',
      '\r',
      '\n',
      ': comment\n',
      'event: error\n',
      'id: 1\n',
      'retry: 0\n',
      '\ufeff',
      '\0',
    ],
    ...[
      'data: [DONE]\n\n',
      '[DONE]',
      '"choices":[',
      '"delta":{',
      '"content":"a"',
      '"content":null',
      '"finish_reason":"stop"',
    ],
    ...['"index":1', '"index":-1', '"index":1e9', '"usage":{"prompt_tokens":1,"completion_tokens":2}', '"usage":null'],
    ...[
      '"completion_tokens":5000',
      '"error":{"message":"no"}',
      '"error":null',
      '"tool_calls":[{"index":0}]',
      '"model":"x"',
    ],
    ...[
      apiKey,
      `"message":"key ${apiKey}"`,
      '"__proto__":{}',
      '"logprobs":{"content":[1]}',
      '"function_call":{}',
      '\u2028',
      '€',
      '🙂',
    ],
    ...['{', '}', '[', ']', ',', '"', '\\n', '\\ud800', 'null', '1e999', '\ud83d'],
  ],
  bytesMax: 16_384,
  structured: streams.map((text) => Buffer.from(text)),
  async check(input) {
    const pieces = inPieces(input);
    const streamed = await bothWays(input, pieces, streamTo);
    const assembled = await bothWays(input, pieces, assemble);
    return beginsAsJson(input) ? assembled : streamed;
  },
};

const beginsAsJson = (bytes?: Uint8Array) => bytes?.[0] === 0x7b;

/** The text sent to the client, and how it ended: `done`, or the outcome of a failure. */
type Ended = { sent: string; end: string };
type Pieces = readonly Uint8Array[];

async function bothWays(whole: Buffer, pieces: Pieces, answer: (pieces: Pieces) => Promise<Ended>): Promise<string> {
  const [one, other] = [await answer([whole]), await answer(pieces)];
  require(one.end === other.end, `${one.end}, but in pieces ${other.end}`);
  require(one.sent ===
    other.sent, `the client gets ${one.sent.slice(0, 500)}, but in pieces ${other.sent.slice(0, 500)}`);
  return one.end;
}

async function streamTo(pieces: Pieces): Promise<Ended> {
  let sent = '';
  let begun = 0;
  const job = { ...callOf(true), includeUsage: true };
  const reply = {
    async chunk(text: string) {
      require(begun === 1, 'text was sent before the first token');
      sent += text;
    },
  };
  const end = await endOf(async () => {
    const { usage } = await answerStream({ ...answering(pieces, job), reply, onFirstToken: () => void begun++ });
    checkUsage(usage);
  });
  checkEvents(sent, end === 'accepted');
  return { sent, end };
}

async function assemble(pieces: Pieces): Promise<Ended> {
  const job = { ...callOf(false), assembled: true };
  let sent = '';
  const reply = { chunk: () => Promise.reject(new Error('a whole reply sends no chunk')) };
  const end = await endOf(async () => {
    const { body = '', usage } = await answerWhole({ ...answering(pieces, job), reply, onFirstToken() {} });
    checkUsage(usage);
    const answer = JSON.parse(body);
    require(answer.model === model &&
      Array.isArray(answer.choices), "it is no chat completion with the client's name of the model");
    require(answer.error == null, 'it contains an error');
    sent = body;
  });
  return { sent, end };
}

async function endOf(answer: () => Promise<void>): Promise<string> {
  try {
    await answer();
    return 'accepted';
  } catch (error) {
    if (!(error instanceof BackendError)) throw error;
    require(!error.message.includes(apiKey), "the message of a failure contains the backend's key");
    return error.outcome;
  }
}

function checkUsage({ promptTokens, completionTokens, cachedTokens }: TokenUsage): void {
  for (const tokens of [promptTokens, completionTokens, cachedTokens]) {
    require(Number.isSafeInteger(tokens) && tokens >= 0, `${tokens} tokens are charged`);
  }
  require(completionTokens <= outputTokensMax, 'more than the output limit is charged');
  require(cachedTokens <= promptTokens, 'more is cached than was sent');
}

/** Each event is one line of JSON with the client's name of the model. The usage is only in the last event. */
function checkEvents(sent: string, isWhole: boolean): void {
  require(sent === '' || sent.endsWith('\n\n'), 'the last event is not complete');
  const list = sent.split('\n\n').slice(0, -1);
  for (const [index, event] of list.entries()) {
    require(event.startsWith('data: ') &&
      !/[\r\n]/.test(event), `an event has more than one line: ${JSON.stringify(event)}`);
    const chunk = JSON.parse(event.slice('data: '.length));
    const isLast = isWhole && index === list.length - 1;
    require(chunk.model === model || chunk.model === undefined, 'a chunk names another model');
    require(Array.isArray(chunk.choices) && chunk.error == null, 'an event is not a chunk');
    require((chunk.usage !== undefined) === isLast, 'usage is not in the last event only');
    if (isLast) require(chunk.choices.length === 0, 'the event with the usage has choices');
  }
}

function callOf(stream: boolean): QueuedCall {
  return {
    ...{
      requestId: 'req_1',
      account: 'user:alice',
      keyId: 'key_1',
      model,
      tier: 'guest',
      stream,
      outputTokensMax,
      body,
    },
    ...{ endpoint: '/v1/chat/completions', includeUsage: false, assembled: false, choices: 1, earlierRuns: [] },
  };
}

/** The unchanged call of a backend, on a connection that delivers these pieces. */
function answering(pieces: Pieces, job: QueuedCall) {
  const callBackend = createCallBackend({ agent: fakeAgent(pieces), timeouts });
  const signal = new AbortController().signal;
  return {
    job,
    callBackend,
    call: { backend, path: '/chat/completions', headers: {}, apiKey, requestId: job.requestId, body, signal },
  };
}

/** Delivers these pieces, one in each turn of the event loop, until it is aborted. */
function fakeAgent(pieces: Pieces): Pick<Dispatcher, 'dispatch'> {
  const type = beginsAsJson(pieces[0]) ? 'application/json' : 'text/event-stream';
  const controller = {
    aborted: false,
    paused: false,
    reason: null,
    pause() {
      controller.paused = true;
    },
    resume() {
      controller.paused = false;
    },
    abort() {
      controller.aborted = true;
    },
  };
  async function bring(handler: Dispatcher.DispatchHandler): Promise<void> {
    handler.onRequestStart?.(controller, {});
    handler.onResponseStart?.(controller, 200, { 'content-type': type });
    for (const piece of pieces) {
      await null;
      while (controller.paused) await new Promise(setImmediate);
      if (controller.aborted) return;
      handler.onResponseData?.(controller, Buffer.from(piece));
    }
    handler.onResponseEnd?.(controller, {});
  }
  return {
    dispatch(_options, handler) {
      void bring(handler);
      return true;
    },
  };
}
