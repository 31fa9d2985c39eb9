import { setImmediate as nextTurn } from 'node:timers/promises';
import test from 'ava';
import { BackendError } from '../../../../shared/endpoints/answers/backend-error.ts';
import { createAnswerAssembler } from '../../../support/chat-assembler.ts';
import { streamOptions } from '../../../support/stream-options.ts';

function chunk(delta: unknown, part: object = {}, more: object = {}): string {
  return JSON.stringify({ model: 'm', choices: [{ index: 0, delta, finish_reason: null, ...part }], ...more });
}

function assemblerOf(...data: string[]) {
  const assembler = createAnswerAssembler(streamOptions({ model: 'm' }));
  for (const item of data) assembler.take(item);
  return assembler;
}

const answerOf = (...data: string[]) => JSON.parse(assemblerOf(...data).answer().text);
const call = (index: number | undefined, rest: object) => ({ tool_calls: [{ index, ...rest }] });
const named = (name: string | null, args: string) => ({ function: { name, arguments: args } });

/** Sends events for as long as they are taken. Other tests of this process run in between. */
async function faultOf(event: (count: number) => string, most = 5_000_000): Promise<Ended> {
  const assembler = createAnswerAssembler(streamOptions({ model: 'm' }));
  let taken = 0;
  try {
    for (; taken < most; taken++) {
      assembler.take(event(taken));
      if (taken % 1_000 === 0) await nextTurn();
    }
    return { fault: undefined, taken };
  } catch (error) {
    return { fault: (error as BackendError).fault, taken };
  }
}

type Ended = { fault: string | undefined; taken: number };

const long = 'x'.repeat(1_000_000);
const endless: Record<string, [(count: number) => string, number]> = {
  text: [() => chunk({ content: long }), 40],
  'text in the shortest pieces': [() => '{"choices":[{"index":0,"delta":{"content":"a"}}]}', 2_000_000],
  lists: [() => chunk({}, { logprobs: { content: [long] } }), 40],
  'new fields of the answer': [(count) => chunk({}, {}, { [`f${count}`]: long }), 40],
  'new fields of a choice': [(count) => chunk({}, { [`f${count}`]: long }), 40],
  'new fields of a message': [(count) => chunk({ [`f${count}`]: [long] }), 40],
  'new fields of a call': [(count) => chunk(call(0, { [`f${count}`]: { [long]: 1 } })), 40],
  arguments: [() => chunk(call(0, named('f', long))), 40],
  'fields that grow': [(count) => chunk({}, {}, { [`f${count % 1_000}`]: count < 1_000 ? [] : [long] }), 1_100],
  choices: [(index) => chunk({ content: 'a' }, { index: index * 1_000_003 }), 200],
  'calls of tools': [(index) => chunk(call(index * 1_000_003, { id: `c${index}` })), 200],
};

/** These are bounded by their number, before their size. */
const counted = new Set(['choices', 'calls of tools']);

for (const [what, [event, most]] of Object.entries(endless)) {
  test(`${what} without end: given up`, async (t) => {
    const { fault, taken } = await faultOf(event);
    t.is(fault, counted.has(what) ? 'unreadable' : 'too_large');
    t.true(taken < most, `${taken} were taken`);
  });
}

test('repeated values take no memory', async (t) => {
  const again = chunk({ role: 'assistant' }, { x: long.slice(0, 50_000) }, { citations: [long.slice(0, 50_000)] });
  t.deepEqual(await faultOf(() => again, 2_000), { fault: undefined, taken: 2_000 });
});

test('a large index takes no more memory than a small one', (t) => {
  const answer = answerOf(chunk({ content: 'b' }, { index: 2 ** 53 - 1 }), chunk({ content: 'a' }, { index: 1e9 }));
  t.deepEqual(
    answer.choices.map(({ index }: { index: number }) => index),
    [1e9, 2 ** 53 - 1],
  );
  const calls = answerOf(chunk(call(1e300, named('f', ''))), chunk(call(-1, named('g', ''))));
  t.is(calls.choices[0].message.tool_calls.length, 2);
});

test('names of the prototype are ordinary names everywhere', (t) => {
  const hostile = '{"__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":1}}}';
  const rest = hostile.slice(1, -1);
  const delta = `{${rest},"tool_calls":[{"index":0,${rest},"function":${hostile}}],"function_call":${hostile}}`;
  const choice = `{"index":0,${rest},"delta":${delta},"logprobs":${hostile}}`;
  const { text } = assemblerOf(`{${rest},"choices":[${choice}]}`).answer();
  t.is(({} as { polluted?: unknown }).polluted, undefined);
  t.is(text.split('"__proto__":{"polluted":1}').length, 8);
});

test('an event beyond the bounds of JSON is unreadable, and one at the max depth is assembled', (t) => {
  const eventOf = (levels: number) =>
    `{"choices":[{"index":0,"delta":{"content":"a","deep":${'['.repeat(levels)}${']'.repeat(levels)}}}]}`;
  t.is(t.throws(() => assemblerOf(eventOf(125)), { instanceOf: BackendError })?.fault, 'unreadable');
  t.true(assemblerOf(eventOf(124)).answer().text.includes('['.repeat(124)));
});
