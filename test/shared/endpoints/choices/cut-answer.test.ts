import test from 'ava';
import { parseAnswer } from '../../../../shared/endpoints/choices/convert-answer.ts';
import { cutAnswer } from '../../../../shared/endpoints/choices/cut-answer.ts';

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
