import test from 'ava';
import { estimateInput, inputPrompt } from '../../../../shared/endpoints/responses/response-prompt.ts';
import { responses } from '../../../../shared/endpoints/responses/responses.ts';
import { callOf } from '../../../support/endpoints/endpoint-call.ts';

const estimate = (request: object) => estimateInput(request, JSON.stringify(request));
const user = (...content: object[]) => ({ input: [{ role: 'user', content }] });
const data = (bytes: number) => 'A'.repeat((bytes / 3) * 4);
const png = (bytes: number) => `data:image/png;base64,${data(bytes)}`;

/** How many tokens the part adds to the same part without its data. */
function added(part: object, emptied: object): number {
  return estimate(user(part)) - estimate(user(emptied));
}

test('an image whose size cannot be read counts 1,500 tokens, and an address also counts as text', (t) => {
  for (const bytes of [3, 300_000]) {
    const image = (url: string) => ({ type: 'input_image', image_url: url });
    const tokens = estimate(user(image(png(bytes))));
    t.true(tokens > 1_500 && tokens < 1_600, `${tokens}`);
  }
  const short = estimate(user({ type: 'input_image', image_url: 'https://a.example/a.png' }));
  const long = estimate(user({ type: 'input_image', image_url: `https://a.example/${'a/'.repeat(500)}a.png` }));
  t.true(short > 1_500 && long > short + 200, `${short}, ${long}`);
  t.true(estimate(user({ type: 'input_image', file_id: 'file-1' })) > 1_500);
});

test('sound counts a token for 100 bytes, and a file one for 64 bytes', (t) => {
  const sound = (text: string) => ({ type: 'input_audio', input_audio: { data: text, format: 'wav' } });
  t.is(added(sound(data(30_000)), sound(data(3))), 299);
  const file = (text: string) => ({ type: 'input_file', filename: 'a.pdf', file_data: text });
  t.is(added(file(data(30_720)), file(data(6))), 480 - 1);
  t.true(estimate(user(file(`data:application/pdf;base64,${data(30_720)}`))) > 480);
});

test('media in the output of a tool counts, too', (t) => {
  const of = (output: unknown) => estimate({ input: [{ type: 'function_call_output', call_id: 'c', output }] });
  t.true(of([{ type: 'input_image', image_url: png(300_000) }]) < 1_600);
  t.true(of([{ type: 'input_image', image_url: png(3) }]) > 1_500);
});

test('a part that only looks like media counts as text', (t) => {
  const long = 'no base64! '.repeat(1_000);
  for (const part of [
    { type: 'input_audio', input_audio: { data: long } },
    { type: 'input_audio', input_audio: null },
    { type: 'input_file', file_data: long },
    { type: 'input_image', image_url: { url: long } },
    { type: 'input_text', image_url: png(3_000) },
  ]) {
    const whole = user(part);
    t.true(estimate(whole) >= 0 && Number.isSafeInteger(estimate(whole)));
  }
  t.true(estimate(user({ type: 'input_file', file_data: long })) > 2_000);
});

test('everything in the request counts: instructions, tools, names of fields, and each item', (t) => {
  const base = { input: 'Hi' };
  const long = 'word '.repeat(400);
  for (const more of [{ instructions: long }, { tools: [{ type: 'function', description: long }] }, { input: long }])
    t.true(estimate({ ...base, ...more }) > 400, JSON.stringify(more).slice(0, 50));
  const items = (count: number) => ({ input: Array.from({ length: count }, () => ({ role: 'user', content: 'Hi' })) });
  t.true(estimate(items(20)) - estimate(items(10)) >= 10 * 4);
});

test('any object can be estimated, valid or not', (t) => {
  for (const input of [
    undefined,
    null,
    5,
    {},
    [null],
    [[[]]],
    [{ content: 5 }],
    [{ content: [null, { type: 'input_image' }] }],
  ])
    t.true(estimate({ input }) > 0);
});

test('the reservation is the estimate and the limit', (t) => {
  const call = callOf(responses, { input: 'Hi', max_output_tokens: 9, instructions: 'Be brief.' });
  t.deepEqual(call.cost, {
    promptTokens: estimateInput({ input: 'Hi' }, call.payload),
    reservedTokens: estimateInput({ input: 'Hi' }, call.payload) + 9,
    ...{ outputTokensMax: 9, choices: 1 },
    ...{ promptField: 'input', limitField: 'max_output_tokens', choicesField: 'n' },
  });
});

test('the tokenizer gets every text that the model reads, once', (t) => {
  const input = [
    { role: 'user', content: 'a' },
    {
      role: 'user',
      content: [
        { type: 'input_text', text: 'b' },
        { type: 'input_image', image_url: 'https://x' },
      ],
    },
    { type: 'reasoning', id: 'x', summary: [{ type: 'summary_text', text: 'c' }], encrypted_content: 'no' },
    { type: 'function_call', call_id: 'no', name: 'no', arguments: '{"d":1}' },
    { type: 'function_call_output', call_id: 'no', output: [{ type: 'input_text', text: 'e' }] },
    { type: 'message', role: 'assistant', content: [{ type: 'refusal', refusal: 'f' }] },
    { type: 'custom_tool_call', call_id: 'no', name: 'no', input: 'g' },
  ];
  t.deepEqual(inputPrompt({ instructions: 'Be brief.', input }), {
    texts: ['Be brief.', 'a', 'b', 'c', '{"d":1}', 'e', 'f', 'g'],
    // Around the items, of the image and the encrypted reasoning.
    tokens: 7 * 4 + 1_500 + 1,
  });
  const tool = { type: 'function', name: 'weather', description: 'Says how it is outside.' };
  t.deepEqual(inputPrompt({ input: 'Hi', tools: [tool] }).texts, ['Hi', JSON.stringify(tool)]);
  const text = { format: { type: 'json_schema', schema: { title: 'x' } } };
  t.deepEqual(inputPrompt({ input: 'Hi', text }).texts, ['Hi', JSON.stringify(text)]);
  t.deepEqual(inputPrompt({ input: 'Hi' }), { texts: ['Hi'], tokens: 4 });
  t.deepEqual(inputPrompt({}), { texts: [], tokens: 4 });
});
