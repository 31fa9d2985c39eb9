import test from 'ava';
import fc from 'fast-check';
import { createAnswerAssembler } from '../../../support/chat-assembler.ts';
import { streamOptions } from '../../../support/stream-options.ts';

/** A message, the parts that it may arrive in, and its opening. */
type Cut = { message: Record<string, unknown>; opening: object; parts: object[] };

const word = fc.string({ unit: 'binary', maxLength: 12 });
const json = fc.jsonValue({ maxDepth: 2 });

/** The pieces that any text may be cut into, with empty ones between them. */
const pieces = fc.array(fc.oneof(word, fc.constant('')), { minLength: 1, maxLength: 6 });

const textField = (name: string) =>
  pieces.map((list) => ({ name, text: list.join(''), parts: list.map((piece) => ({ [name]: piece })) }));

const call = fc.record({
  id: fc.string({ minLength: 1 }),
  name: fc.string({ minLength: 1 }),
  args: pieces,
  extra: json,
});

const message: fc.Arbitrary<Cut> = fc
  .record({
    content: fc.option(textField('content')),
    others: fc
      .uniqueArray(fc.constantFrom('reasoning_content', 'reasoning', 'refusal', 'x_said'), { maxLength: 4 })
      .chain((names) => fc.tuple(...names.map(textField))),
    calls: fc.uniqueArray(call, { maxLength: 3, selector: ({ id }) => id }),
    repeated: fc.boolean(),
  })
  .map(({ content, others, calls, repeated }) => {
    const texts = content === null ? others : [content, ...others];
    const whole = Object.fromEntries(texts.map(({ name, text }) => [name, text]));
    const isTextless = calls.length > 0 || typeof whole.refusal === 'string';
    return {
      message: {
        role: 'assistant',
        ...whole,
        content: (isTextless ? whole.content || null : whole.content) ?? null,
        ...(calls.length > 0 && { tool_calls: calls.map(wholeCall) }),
      },
      opening: { role: 'assistant', ...(content === null ? { content: null } : { content: '' }) },
      parts: [
        ...texts.flatMap(({ parts }) => parts),
        ...calls.flatMap((given, index) => callParts(given, index, repeated)),
      ],
    };
  });

type Call = typeof call extends fc.Arbitrary<infer Value> ? Value : never;

function wholeCall({ id, name, args, extra }: Call) {
  return { id, type: 'function', function: { name, arguments: args.join('') }, extra: [extra] };
}

function callParts({ id, name, args, extra }: Call, index: number, repeated: boolean) {
  const opening = { index, id, type: 'function', function: { name, arguments: '' }, extra: [extra] };
  const label = repeated ? { id, type: 'function' } : {};
  return [opening, ...args.map((piece) => ({ index, ...label, function: { arguments: piece } }))].map((part) => ({
    tool_calls: [part],
  }));
}

/** Interleaves the choices, and keeps the order of each choice's parts. */
function interleave(lists: readonly object[][], picks: readonly number[]): object[] {
  const left = lists.map((list) => [...list]);
  const merged: object[] = [];
  for (let turn = 0; left.some(({ length }) => length > 0); turn += 1) {
    const waiting = left.filter(({ length }) => length > 0);
    const next = waiting[(picks[turn % picks.length] ?? 0) % waiting.length]?.shift();
    if (next !== undefined) merged.push(next);
  }
  return merged;
}

const reasons = fc.constantFrom('stop', 'length', 'tool_calls');

test('any answer, cut into any parts, is assembled to the same answer', (t) => {
  const cases = fc.record({
    choices: fc.array(
      fc.record({ cut: message, logprobs: fc.option(fc.array(json, { minLength: 1, maxLength: 4 })), reason: reasons }),
      { minLength: 1, maxLength: 4 },
    ),
    head: fc.dictionary(fc.constantFrom('id', 'created', 'system_fingerprint', 'x'), json),
    picks: fc.array(fc.nat(), { minLength: 1 }),
    together: fc.boolean(),
    usage: fc.record({ prompt_tokens: fc.nat(1_000), completion_tokens: fc.nat(1_000), x: json }),
  });
  fc.assert(
    fc.property(cases, ({ choices, head, picks, together, usage }) => {
      const parts = choices.map(({ cut, logprobs, reason }, index) => [
        { index, delta: cut.opening, logprobs: null, finish_reason: null },
        ...cut.parts.map((delta) => ({ index, delta, finish_reason: null })),
        ...(logprobs ?? []).map((item) => ({ index, delta: {}, logprobs: { content: [item], refusal: null } })),
        { index, delta: {}, finish_reason: reason },
      ]);
      const said = interleave(parts, picks);
      const events = together ? [{ ...head, choices: said }] : said.map((part) => ({ ...head, choices: [part] }));
      const assembler = createAnswerAssembler(streamOptions({ model: 'm' }));
      for (const event of [...events, { choices: [], usage }]) assembler.take(JSON.stringify(event));
      t.true(assembler.complete(() => choices.length));
      t.deepEqual(JSON.parse(assembler.answer().text), {
        ...JSON.parse(JSON.stringify(head)),
        ...{ object: 'chat.completion', model: 'm', usage: JSON.parse(JSON.stringify(usage)) },
        choices: choices.map(({ cut, logprobs, reason }, index) => ({
          ...{ index, message: { refusal: null, ...JSON.parse(JSON.stringify(cut.message)) }, finish_reason: reason },
          logprobs: logprobs === null ? null : { content: JSON.parse(JSON.stringify(logprobs)), refusal: null },
        })),
      });
    }),
    { numRuns: 300 },
  );
});
