import test from 'ava';
import { assembled, type Json, parsed, streamed } from '../../../support/endpoints/dialect.ts';

const chatPath = '/v1/chat/completions';
const completionsPath = '/v1/completions';
const messagesPath = '/v1/messages';
const responsesPath = '/v1/responses';

type Choice = { index: number; finish_reason: string | null; delta?: { content?: string }; text?: string };

/** A choice of either kind with this text. */
const kinds: Record<string, (text: string, isWhole: boolean) => Json> = {
  [chatPath]: (content, isWhole) => ({ [isWhole ? 'message' : 'delta']: { content } }),
  [completionsPath]: (text) => ({ text }),
};
const choicesIn = (events: Json[]) => events.flatMap(({ choices }) => choices as Choice[]);
const textIn = (choices: Choice[]) => choices.map(({ delta, text }) => delta?.content ?? text ?? '').join('');
/** The reasons of choices that have ended, by their index. */
const reasonsIn = (choices: Choice[]) =>
  Object.fromEntries(choices.flatMap(({ index, finish_reason: reason }) => (reason === null ? [] : [[index, reason]])));

for (const [path, choiceOf] of Object.entries(kinds)) {
  const chunk = (text: string, finish_reason: unknown = null, index = 0) => ({
    ...{ id: 'x', object: 'y', created: 1, model: 'm' },
    choices: [{ index, ...choiceOf(text, false), finish_reason }],
  });

  for (const reason of ['abort', 'Abort', 'ERROR', 'error', 'cancelled', 'Cancelled']) {
    test(`${path}: finish_reason ${reason} is an answer that broke off; the text before it was sent, and no end`, (t) => {
      const events = [chunk('Hel'), chunk('lo', reason), '[DONE]'];
      const { events: sent, failed, complete } = streamed(path, events);
      t.is(failed, 'interrupted');
      t.false(complete);
      t.is(textIn(choicesIn(sent)), 'Hel');
      t.deepEqual(reasonsIn(choicesIn(sent)), {});
      t.is(assembled(path, events).failed, 'interrupted');
      t.is(assembled(path, [chunk('', reason)]).failed, 'interrupted');
      const whole = (finish_reason: string) => ({
        choices: [
          { ...choiceOf('Hi', true), finish_reason: 'stop' },
          { ...choiceOf('Hi', true), finish_reason },
        ],
      });
      t.is(parsed(path, whole(reason)).failed, 'interrupted');
      t.is(parsed(path, whole('length')).failed, undefined);
    });
  }

  test(`${path}: an empty finish_reason is null, in every chunk and in a whole answer`, (t) => {
    const events = [chunk('Hel', ''), chunk('lo', ''), chunk(' you', ''), chunk('', 'stop'), '[DONE]'];
    const reasons = choicesIn(streamed(path, events).events).map(({ finish_reason: reason }) => reason);
    t.deepEqual(reasons, [null, null, null, 'stop']);
    t.like(assembled(path, events).answer, { choices: [{ finish_reason: 'stop' }] });
    const whole = { choices: [{ ...choiceOf('Hi', true), finish_reason: '' }] };
    t.like(parsed(path, whole).answer, { choices: [{ finish_reason: null }] });
  });

  /** Events; how many choices were asked for; the reasons that the client gets, or nothing if the answer broke off. */
  const ends: Record<string, [unknown[], number, Record<number, string> | undefined]> = {
    '[DONE] without a reason': [[chunk('Hello'), '[DONE]'], 1, { 0: 'stop' }],
    '[DONE] after an empty reason': [[chunk('Hello', ''), '[DONE]'], 1, { 0: 'stop' }],
    '[DONE] without reasons for several choices': [
      [chunk('a'), chunk('b', null, 1), '[DONE]'],
      2,
      { 0: 'stop', 1: 'stop' },
    ],
    '[DONE] after fewer choices than asked for, each with a reason': [
      [chunk('a', 'length'), '[DONE]'],
      3,
      { 0: 'length' },
    ],
    '[DONE] after fewer choices than asked for, without reasons': [[chunk('a'), '[DONE]'], 3, { 0: 'stop' }],
    '[DONE] with a reason for one of two choices': [[chunk('a', 'stop'), chunk('b', null, 1), '[DONE]'], 2, undefined],
    '[DONE] alone': [['[DONE]'], 1, undefined],
    'a reason without [DONE]': [[chunk('a', 'stop')], 1, { 0: 'stop' }],
    'a reason for one of two choices, without [DONE]': [[chunk('a', 'stop')], 2, undefined],
    'no reason and no [DONE]': [[chunk('a')], 1, undefined],
  };
  for (const [title, [events, choices, reasons]] of Object.entries(ends)) {
    test(`${path}: ${title}: ${reasons === undefined ? 'broken off' : 'complete'}`, (t) => {
      const { events: sent, complete } = streamed(path, events, { choices });
      t.is(complete, reasons !== undefined);
      const whole = assembled(path, events, { choices });
      t.is(whole.failed, reasons === undefined ? 'interrupted' : undefined);
      if (reasons === undefined) return;
      t.deepEqual(reasonsIn(choicesIn(sent)), reasons);
      t.deepEqual(reasonsIn(whole.answer.choices as Choice[]), reasons);
      const { choices: last, usage } = sent.at(-1) ?? {};
      t.deepEqual(last, [], 'the usage is last');
      t.truthy(usage);
    });
  }

  test(`${path}: a chunk of ours with stop has the head of the backend's chunks`, (t) => {
    const { events } = streamed(path, [chunk('a'), chunk('b'), chunk('c'), '[DONE]']);
    t.like(events.at(-2), {
      id: 'x',
      object: 'y',
      created: 1,
      model: 'm',
      choices: [{ index: 0, finish_reason: 'stop' }],
    });
  });
}

const message = (fields: Json) => ({
  id: 'msg_1',
  type: 'message',
  role: 'assistant',
  model: 'm',
  content: [],
  ...fields,
});
const start = { type: 'message_start', message: message({ usage: { input_tokens: 5, output_tokens: 0 } }) };
const block = { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } };
const word = { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'Hi' } };
const delta = (fields: Json | null, usage: Json | null = { output_tokens: 2 }) => ({
  ...{ type: 'message_delta', delta: fields, usage },
});
const stop = { type: 'message_stop' };

/** The events after the text; the reason that the client gets, or nothing if the message broke off. */
const messageEnds: Record<string, [unknown[], string | undefined]> = {
  'its reason and its last event': [[delta({ stop_reason: 'tool_use' }), stop], 'tool_use'],
  'its reason': [[delta({ stop_reason: 'max_tokens' })], 'max_tokens'],
  'its reason, and counts in a delta of their own': [
    [delta({ stop_reason: 'refusal' }), delta({ stop_reason: null }), delta(null), stop],
    'refusal',
  ],
  'its last event alone': [[stop], undefined],
  'its last event after counts only': [[delta({}), stop], undefined],
  'no reason': [[delta({ stop_reason: null }), stop], undefined],
  'an empty reason': [[delta({ stop_reason: '' }), stop], undefined],
  'the reason abort': [[delta({ stop_reason: 'abort' }), stop], undefined],
  'the reason Error': [[delta({ stop_reason: 'Error' }), stop], undefined],
  'the reason cancelled': [[delta({ stop_reason: 'cancelled' }), stop], undefined],
  'its reason and [DONE]': [[delta({ stop_reason: 'end_turn' }), '[DONE]'], 'end_turn'],
  '[DONE] alone': [['[DONE]'], undefined],
};
for (const [title, [ends, reason]] of Object.entries(messageEnds)) {
  test(`${messagesPath}: ${title}: ${reason === undefined ? 'broken off' : 'complete'}`, (t) => {
    const events = [start, block, word, ...ends];
    const { events: sent, complete } = streamed(messagesPath, events);
    t.is(complete, reason !== undefined);
    const text = sent.find(({ type }) => type === 'content_block_delta');
    t.like(text, word, 'the text was sent');
    const whole = assembled(messagesPath, events);
    if (reason === undefined) {
      t.is(whole.failed, 'interrupted');
      t.false(sent.some(({ type }) => type === 'message_delta' || type === 'message_stop'));
      return;
    }
    t.like(sent.at(-2), { type: 'message_delta', delta: { stop_reason: reason }, usage: { output_tokens: 2 } });
    t.deepEqual(sent.at(-1), stop);
    t.like(whole.answer, { stop_reason: reason, content: [{ text: 'Hi' }], usage: { output_tokens: 2 } });
  });
}

for (const reason of [undefined, null, '', 'abort', 'ERROR', 'Cancelled', 'end_turn', 'pause_turn']) {
  const isComplete = reason?.endsWith('turn') === true;
  test(`${messagesPath}: a whole message with stop_reason ${reason} is ${isComplete ? 'complete' : 'broken off'}`, (t) => {
    const whole = parsed(messagesPath, message({ content: [{ type: 'text', text: 'Hi' }], stop_reason: reason }));
    t.is(whole.failed, isComplete ? undefined : 'interrupted');
    if (isComplete) t.is(whole.answer.stop_reason, reason);
  });
}

const output = [{ type: 'message', id: 'msg_1', role: 'assistant', content: [{ type: 'output_text', text: 'Hi' }] }];
const response = (fields: Json) => ({ id: 'resp_1', object: 'response', model: 'm', output, ...fields });
const written = {
  type: 'response.output_text.delta',
  item_id: 'msg_1',
  output_index: 0,
  content_index: 0,
  delta: 'Hi',
};

/** The last event; whether it completes the response. */
const responseEnds: Record<string, [Json, boolean]> = {
  'response.completed': [{ type: 'response.completed', response: response({ status: 'completed' }) }, true],
  'response.incomplete': [{ type: 'response.incomplete', response: response({ status: 'incomplete' }) }, true],
  'response.completed without a status': [{ type: 'response.completed', response: response({ status: null }) }, true],
  'response.failed without an error': [{ type: 'response.failed', response: response({ status: 'failed' }) }, false],
  'response.failed with an error': [
    { type: 'response.failed', response: response({ status: 'failed', error: { message: 'Dead.' } }) },
    false,
  ],
  'response.cancelled': [{ type: 'response.cancelled', response: response({ status: 'cancelled' }) }, false],
  'response.cancelled alone': [{ type: 'response.cancelled' }, false],
  'response.completed of a cancelled response': [
    { type: 'response.completed', response: response({ status: 'Cancelled' }) },
    false,
  ],
  'response.completed of a failed response': [
    { type: 'response.completed', response: response({ status: 'failed' }) },
    false,
  ],
};
for (const [title, [end, isComplete]] of Object.entries(responseEnds)) {
  const fault = isComplete ? undefined : title === 'response.failed with an error' ? 'said' : 'interrupted';
  test(`${responsesPath}: ${title}: ${isComplete ? 'complete' : 'broken off'}`, (t) => {
    const { events: sent, failed, complete } = streamed(responsesPath, [written, end]);
    t.is(complete, isComplete);
    t.is(failed, fault);
    t.like(sent[0], { delta: 'Hi' }, 'the text was sent');
    t.is(sent.length, isComplete ? 2 : 1, 'no final event');
    t.is(assembled(responsesPath, [written, end]).failed, fault);
  });
}

for (const status of ['completed', 'incomplete', null, undefined, 'failed', 'cancelled', 'Cancelled']) {
  const isComplete = status == null || status.endsWith('complete') || status === 'completed';
  test(`${responsesPath}: a whole response with status ${status} is ${isComplete ? 'complete' : 'broken off'}`, (t) => {
    const whole = parsed(responsesPath, response({ status }));
    t.is(whole.failed, isComplete ? undefined : 'interrupted');
    if (isComplete) t.is(whole.answer.status, status ?? 'completed');
  });
}
