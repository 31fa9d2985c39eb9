import fc from 'fast-check';
import { answerWhole } from '../../workers/failover/answer-request.ts';
import { textOfBody } from '../../workers/replies/send-pieces.ts';
import {
  type AnswerEnd,
  answering,
  apiKey,
  beginsAsJson,
  bothWays,
  callOf,
  checkUsage,
  endOf,
  model,
  type Pieces,
  streamTo,
} from './backend-answers.ts';
import { inPieces } from './fake-request.ts';
import { type FuzzTarget, require } from './search/fuzz-target.ts';

const endpoint = '/v1/chat/completions';
const job = { ...callOf(endpoint, true), includeUsage: true };

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
    const streamed = await bothWays(input, pieces, (parts) => streamTo(job, parts, checkEvents));
    const assembled = await bothWays(input, pieces, assemble);
    return beginsAsJson(input) ? assembled : streamed;
  },
};

async function assemble(pieces: Pieces): Promise<AnswerEnd> {
  const job = { ...callOf(endpoint, false), assembled: true };
  let sent = '';
  const reply = { chunk: () => Promise.reject(new Error('a whole reply sends no chunk')) };
  const end = await endOf(async () => {
    const { body: whole = '', usage } = await answerWhole({
      ...answering(pieces, job),
      reply,
      onCalling() {},
      onFirstToken() {},
    });
    checkUsage(usage);
    const body = textOfBody(whole);
    const answer = JSON.parse(body);
    require(answer.model === model &&
      Array.isArray(answer.choices), "it is no chat completion with the client's name of the model");
    require(answer.error == null, 'it contains an error');
    sent = body;
  });
  return { sent, end };
}

/** Each event is one line of JSON with the client's name of the model. The usage is only in the last event. */
function checkEvents(sent: string, isWhole: boolean): void {
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
