import test from 'ava';
import { BackendError } from '../../../../shared/endpoints/answers/backend-error.ts';
import { writtenText } from '../../../../shared/endpoints/answers/written-text.ts';
import { chatKind } from '../../../../shared/endpoints/chat/chat.ts';
import {
  answerText,
  cutAnswer,
  parseAnswer,
  presentAnswer,
} from '../../../../shared/endpoints/chat-stream/choices-answers.ts';
import { readUsage } from '../../../../shared/endpoints/chat-stream/follow-answer.ts';
import { streamOptions } from '../../../support/stream-options.ts';

const usage = { prompt_tokens: 3, completion_tokens: 5, total_tokens: 8, prompt_tokens_details: { cached_tokens: 1 } };
const message = { role: 'assistant', content: 'Grüße', refusal: null };
const choice = { index: 0, message, finish_reason: 'stop', logprobs: null };
const head = { id: 'x', object: 'chat.completion', created: 1, model: 'm' };
const given = { ...head, choices: [choice], usage, vendor: { kept: [1, null] } };
const counted = { promptTokens: 30, completionTokens: 50 };
/** The tokens of `usage`. */
const charged = { promptTokens: 3, completionTokens: 5 };

test('passes an answer on byte for byte if nothing has to change', (t) => {
  const text = `  ${JSON.stringify(given, undefined, 1)}\n`;
  const answer = parseAnswer(text);
  t.deepEqual(answer.usage, { promptTokens: 3, completionTokens: 5, cachedTokens: 1 });
  t.is(presentAnswer(answer, charged, { ...streamOptions({ model: 'm' }), kind: chatKind }), text);
});

for (const model of ['upstream-model', undefined]) {
  test(`replaces ${model} by the client's name of the model, and changes nothing else`, (t) => {
    const answer = parseAnswer(JSON.stringify({ ...given, model }));
    t.deepEqual(
      JSON.parse(presentAnswer(answer, charged, { ...streamOptions({ model: 'm' }), kind: chatKind })),
      given,
    );
  });
}

test('adds the properties that are required and missing', (t) => {
  const bare = parseAnswer('{"choices":[{"message":{"content":"a"}},{"index":7,"message":{}}]}');
  const presented = JSON.parse(presentAnswer(bare, counted, { ...streamOptions({ model: 'm' }), kind: chatKind }));
  const rest = { finish_reason: null, logprobs: null };
  t.deepEqual(presented, {
    ...{ id: 'chatcmpl-req_1', object: 'chat.completion', created: 1_700_000_000, model: 'm' },
    choices: [
      { index: 0, message: { ...message, content: 'a' }, ...rest },
      { index: 7, message: { ...message, content: null }, ...rest },
    ],
    usage: { prompt_tokens: 30, completion_tokens: 50, total_tokens: 80 },
  });
});

for (const reported of [
  undefined,
  null,
  {},
  { prompt_tokens: 3 },
  { prompt_tokens: -1, completion_tokens: 1 },
  'none',
]) {
  test(`writes the counted usage if the backend reported ${JSON.stringify(reported)}`, (t) => {
    const answer = parseAnswer(JSON.stringify({ ...given, usage: reported }));
    t.is(answer.usage, undefined);
    const presented = JSON.parse(presentAnswer(answer, counted, { ...streamOptions({ model: 'm' }), kind: chatKind }));
    t.deepEqual(presented, { ...given, usage: { prompt_tokens: 30, completion_tokens: 50, total_tokens: 80 } });
  });
}

for (const text of ['', '<html>', '{"choices":', 'null', '[]', '{}', '{"choices":"x"}', '{"choices":[1]}']) {
  test(`is not an answer: ${text === '' ? 'nothing' : text}`, (t) => {
    t.is(t.throws(() => parseAnswer(text), { instanceOf: BackendError })?.fault, 'unreadable');
  });
}

test('usage may have other fields than tokens', (t) => {
  t.deepEqual(readUsage(usage), { promptTokens: 3, completionTokens: 5, cachedTokens: 1 });
});

test('the written text is every text in every choice, without roles, ids and types', (t) => {
  const called = {
    role: 'assistant',
    content: null,
    reasoning_content: 'Hm. ',
    tool_calls: [{ id: 'call_1', type: 'function', function: { name: 'weather', arguments: '{"in":"東京"}' } }],
  };
  const answer = parseAnswer(JSON.stringify({ choices: [choice, { index: 1, message: called }, { index: 2 }] }));
  t.is(answerText(answer), 'Grüße\nHm. weather{"in":"東京"}\n');
});

test('values that are nested too deeply are no text, and no error', (t) => {
  const deep = JSON.parse(`${'['.repeat(100_000)}"x"${']'.repeat(100_000)}`);
  t.is(writtenText({ content: 'a', deep }), 'a');
});

test('an answer with an error is rejected, also if it has other fields', (t) => {
  for (const error of [{ message: 'the key is hunter2' }, 'hunter2']) {
    const thrown = t.throws(() => parseAnswer(JSON.stringify({ ...given, error })), { instanceOf: BackendError });
    t.is(thrown?.fault, 'said');
    t.false(String(thrown?.message).includes('hunter2'));
  }
  t.is(t.throws(() => parseAnswer('{"error":{}}'), { instanceOf: BackendError })?.fault, 'said');
  t.notThrows(() => parseAnswer(JSON.stringify({ ...given, error: null })));
});

test('an answer beyond the bounds of JSON is unreadable, and the log probabilities of a long answer are within the bounds', (t) => {
  const answerWith = (extra: string) =>
    `{"choices":[{"index":0,"message":{"role":"assistant","content":"a"}}],"x":${extra}}`;
  const deep = `${'['.repeat(20_000)}${']'.repeat(20_000)}`;
  const wide = `[${'[],'.repeat(1_000_000)}[]]`;
  for (const text of [deep, wide]) {
    t.is(t.throws(() => parseAnswer(answerWith(text)), { instanceOf: BackendError })?.fault, 'unreadable');
  }
  const token = { token: 'a', logprob: -0.1, bytes: [97] };
  const content = Array.from({ length: 4_096 }, () => ({ ...token, top_logprobs: Array(20).fill(token) }));
  t.notThrows(() => parseAnswer(answerWith(JSON.stringify({ content }))));
});

function cut(message: object, share: number, more: object = {}) {
  const text = JSON.stringify({ id: 'x', choices: [{ index: 0, message, finish_reason: 'stop', ...more }], vendor: 1 });
  const { text: written, answer } = cutAnswer(parseAnswer(text), share);
  requireSameText(written, answer);
  return answer.choices[0] as { message: unknown; finish_reason: string; logprobs?: unknown };
}

function requireSameText(written: string, answer: object): void {
  if (written !== JSON.stringify(answer)) throw new Error('the text is not that of the answer');
}

test('reasoning is kept first, in any order of fields', (t) => {
  const message = { role: 'assistant', content: 'c'.repeat(50), reasoning_content: 'r'.repeat(50), id: 'kept' };
  t.deepEqual(cut(message, 0.2).message, {
    role: 'assistant',
    content: '',
    reasoning_content: 'r'.repeat(20),
    id: 'kept',
  });
  t.deepEqual(cut(message, 0.75).message, { ...message, content: 'c'.repeat(25) });
  t.is(cut(message, 0.75).finish_reason, 'length');
});

test('tool calls are cut within their arguments, and later ones are left out', (t) => {
  const call = (name: string) => ({
    id: `call_${name}`,
    type: 'function',
    function: { name, arguments: 'a'.repeat(10) },
  });
  const message = { role: 'assistant', content: null, tool_calls: [call('f'), call('g'), call('h')] };
  const { tool_calls } = cut(message, 0.5).message as typeof message; // as it was created above
  t.deepEqual(
    tool_calls.map(({ id, function: { name, arguments: text } }) => [id, name, text.length]),
    [
      ['call_f', 'f', 10],
      ['call_g', 'g', 6],
    ],
  );
});

test('log probabilities are cut with their tokens, half a character is dropped, and other shapes stay unchanged', (t) => {
  const logprobs = { content: Array.from({ length: 10 }, (_, token) => ({ token })), refusal: null };
  t.deepEqual(cut({ content: 'x'.repeat(10) }, 0.3, { logprobs }).logprobs, {
    content: logprobs.content.slice(0, 3),
    refusal: null,
  });
  t.deepEqual(cut({ content: '🙂🙂' }, 0.75).message, { content: '🙂' });
  t.deepEqual(
    cut(
      {
        content: [
          { type: 'text', text: 'abcd' },
          { type: 'text', text: 'efgh' },
        ],
      },
      0.25,
    ).message,
    {
      content: [{ type: 'text', text: 'ab' }],
    },
  );
  t.deepEqual(cut({}, 0.5).message, {});
});

test('the longest of several choices are cut, and a short one stays complete', (t) => {
  const choice = (index: number, length: number) => ({
    index,
    message: { role: 'assistant', content: 'c'.repeat(length) },
    finish_reason: 'stop',
  });
  const text = JSON.stringify({ id: 'x', choices: [choice(0, 400), choice(1, 10), choice(2, 300), choice(3, 90)] });
  const { answer } = cutAnswer(parseAnswer(text), 0.5);
  const cut = answer.choices as ReturnType<typeof choice>[]; // as they were created above
  t.deepEqual(
    cut.map(({ message, finish_reason: reason }) => [message.content.length, reason]),
    [
      [150, 'length'],
      [10, 'stop'],
      [150, 'length'],
      [90, 'stop'],
    ],
  );
});
