import test from 'ava';
import { chatCompletion, missingIn, response } from './openai-required.ts';

test('names each required property that is missing, at every level', (t) => {
  const choice = { index: 0, finish_reason: null, message: { role: 'assistant', content: null }, logprobs: null };
  const answer = {
    id: 'x',
    created: 1,
    model: 'm',
    choices: [choice],
    usage: { prompt_tokens: 1, completion_tokens: 1 },
  };
  t.deepEqual(missingIn(answer, chatCompletion), ['.object', '.choices[0].message.refusal', '.usage.total_tokens']);
});

test('what an item must have depends on its type, which must be known', (t) => {
  const { names = [] } = response;
  const whole = Object.fromEntries(names.map((name) => [name, null]));
  t.deepEqual(missingIn({ ...whole, output: [] }, response), []);
  const output = [
    { type: 'function_call', name: 'f', arguments: '' },
    { type: 'unknown' },
    { type: 'reasoning', id: 'x' },
  ];
  t.deepEqual(missingIn({ ...whole, output }, response), [
    '.output[0].call_id',
    '.output[1]: type unknown',
    '.output[2].summary',
  ]);
});
