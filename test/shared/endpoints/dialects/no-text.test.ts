import test from 'ava';
import { hasContent } from '../../../../shared/endpoints/answers/written-text.ts';
import { endpointAt } from '../../../../shared/endpoints/endpoints.ts';
import { assembled, type Json, parsed, streamed } from '../../../support/endpoints/dialect.ts';

const chat = '/v1/chat/completions';
const head = { id: 'x', object: 'chat.completion.chunk', created: 1, model: 'm' };
const usage = { prompt_tokens: 7, completion_tokens: 1_300, total_tokens: 1_307 };
const opaque = 'iVBORw0KGgoA'.repeat(100);
const image = { type: 'image_url', image_url: { url: `data:image/png;base64,${opaque}` } };

/** What comes beside the text of a message; the text that the model wrote there, if any. */
const parts: Record<string, [Json, string]> = {
  'images beside the content': [{ images: [image] }, ''],
  'images as base64': [{ images: [opaque] }, ''],
  'an image at an address': [{ images: [{ url: 'https://images.example/1.png' }] }, ''],
  'an image of another form': [{ image: { b64_json: opaque, mime_type: 'image/png' } }, ''],
  'sound with its transcript': [
    { audio: { id: 'audio_1', data: opaque, expires_at: 1, transcript: 'spoken' } },
    'spoken',
  ],
  'encrypted reasoning': [
    { reasoning_details: [{ type: 'reasoning.encrypted', data: opaque, format: 'v1', index: 0 }] },
    '',
  ],
  'encrypted reasoning that is no base64': [
    { reasoning_details: [{ type: 'reasoning.encrypted', data: `{"a b": "${opaque}"}` }] },
    '',
  ],
  'reasoning with a signature': [
    { reasoning_details: [{ type: 'reasoning.text', text: 'Hm', signature: opaque }] },
    'Hm',
  ],
  'a signature of a thought': [{ extra_content: { google: { thought_signature: opaque } } }, ''],
  'encrypted content': [{ provider: { encrypted_content: opaque } }, ''],
  'a data: URL under an unknown name': [{ generated: { url: `data:video/mp4;base64,${opaque}` } }, ''],
};

for (const [title, [part, text]] of Object.entries(parts)) {
  test(`${title}: arrives whole, and no text of it counts except the model's`, (t) => {
    const chunks = [
      { ...head, choices: [{ index: 0, delta: { role: 'assistant', ...part }, finish_reason: null }] },
      { ...head, choices: [{ index: 0, delta: { content: 'Here' }, finish_reason: 'stop' }] },
      { ...head, choices: [], usage },
    ];
    const { events, written, complete } = streamed(chat, [...chunks, '[DONE]']);
    t.true(complete);
    t.is(written, `${text}Here`);
    t.deepEqual(events[0], chunks[0]);
    const whole = assembled(chat, [...chunks, '[DONE]']);
    t.like(whole.answer, { choices: [{ message: { ...part, content: 'Here' } }], usage });
    const message = { role: 'assistant', refusal: null, ...part, content: 'Here' };
    const given = parsed(chat, {
      ...head,
      choices: [{ index: 0, message, finish_reason: 'stop', logprobs: null }],
      usage,
    });
    t.is(given.written, `${text}Here`);
    t.like(given.answer, { choices: [{ message }] });
  });
}

test('an image in the text counts for nothing, and the text around it does', (t) => {
  const content = `Here ![it](data:image/png;base64,${opaque}) is.`;
  const short = `data:image/png;base64,${opaque.slice(0, 24)}`;
  const says = (text: string) => ({ ...head, choices: [{ index: 0, delta: { content: text }, finish_reason: null }] });
  t.is(streamed(chat, [says(content)]).written, 'Here ![it]() is.');
  // After chunks that differ in their text only, too.
  const { events, written } = streamed(chat, [says('a'), says('b'), says('c'), says(content), says(short)]);
  t.is(written, `abcHere ![it]() is.${short}`);
  t.like(events[3], { choices: [{ delta: { content } }] });
  t.is(parsed(chat, { choices: [{ message: { content } }] }).written, 'Here ![it]() is.');
  const named = content.replace(';', ';charset=utf-8;name=a.png;');
  t.is(streamed(chat, [says(named)]).written, 'Here ![it]() is.');
  t.is(parsed('/v1/completions', { choices: [{ text: content }] }).written, 'Here ![it]() is.');
});

test('text that only looks like data counts', (t) => {
  const long = 'word '.repeat(1_000);
  const texts: [Json, string][] = [
    [{ content: opaque }, opaque],
    [{ content: `data: ${long}` }, `data: ${long}`],
    [{ reasoning_content: long }, long],
    [{ generated: { url: long, data: long, result: long } }, long + long + long],
    [{ tool_calls: [{ index: 0, id: 'a', type: 'function', function: { name: 'f', arguments: long } }] }, `f${long}`],
  ];
  for (const [delta, expected] of texts) {
    t.is(streamed(chat, [{ ...head, choices: [{ index: 0, delta, finish_reason: null }] }]).written, expected);
    t.is(parsed(chat, { choices: [{ message: delta }] }).written, expected);
  }
});

test('an answer begins with an image, as it does with a token', (t) => {
  const events = [
    {
      ...head,
      choices: [{ index: 0, delta: { role: 'assistant', content: '', images: [image] }, finish_reason: null }],
    },
  ];
  t.deepEqual(streamed(chat, events).events as unknown[], events);
  t.false(hasContent({ role: 'assistant', type: 'x', content: '', tool_calls: [], other: null }));
  t.true(hasContent({ audio: { data: 'AAAA' } }));
});

test('an answer that is cut keeps what is no text', (t) => {
  const message = { role: 'assistant', content: 'x'.repeat(100), images: [image], audio: { data: opaque } };
  const details = [{ type: 'reasoning.encrypted', data: '{"no": "base64"}' }];
  const { answer } = endpointAt(chat);
  const given = answer.parse(JSON.stringify({ choices: [{ message: { ...message, reasoning_details: details } }] }));
  t.like(JSON.parse(answer.cut(given, 0.5).text), {
    choices: [
      { message: { content: 'x'.repeat(50), images: [image], audio: { data: opaque }, reasoning_details: details } },
    ],
  });
});

test('messages: redacted thinking, signatures and encrypted results count for nothing, streamed and whole', (t) => {
  const content = [
    { type: 'redacted_thinking', data: `${opaque}.${opaque}` },
    { type: 'thinking', thinking: 'Hm', signature: opaque },
    {
      type: 'web_search_tool_result',
      tool_use_id: 'a',
      content: [{ type: 'web_search_result', encrypted_content: opaque }],
    },
    { type: 'text', text: 'Hi' },
  ];
  const message = { type: 'message', id: 'msg_1', role: 'assistant', model: 'm', content: [] };
  const events = [
    { type: 'message_start', message },
    ...content.map((block, index) => ({ type: 'content_block_start', index, content_block: block })),
    { type: 'content_block_delta', index: 1, delta: { type: 'signature_delta', signature: opaque } },
    { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 2 } },
  ];
  t.is(streamed('/v1/messages', events).written.replace('a', ''), 'HmHi');
  t.is(parsed('/v1/messages', { ...message, content, stop_reason: 'end_turn' }).written.replace('a', ''), 'HmHi');
});

test('responses: images, sound and encrypted reasoning count for nothing, streamed and whole', (t) => {
  const output = [
    { type: 'reasoning', id: 'rs_1', summary: [], encrypted_content: opaque },
    { type: 'image_generation_call', id: 'ig_1', status: 'completed', result: opaque },
    { type: 'message', id: 'msg_1', role: 'assistant', content: [{ type: 'output_text', text: 'Hi' }] },
  ];
  const response = { id: 'r', object: 'response', status: 'completed', output };
  const events = [
    ...output.map((item, output_index) => ({ type: 'response.output_item.done', output_index, item })),
    { type: 'response.image_generation_call.partial_image', output_index: 1, partial_image_b64: opaque },
    { type: 'response.audio.delta', delta: opaque },
    { type: 'response.output_audio.delta', output_index: 3, delta: opaque },
    { type: 'response.completed', response },
  ];
  t.is(streamed('/v1/responses', events).written, 'Hi');
  t.is(parsed('/v1/responses', response).written, 'Hi');
  const spoken = { type: 'response.audio.transcript.delta', delta: 'spoken' };
  t.is(streamed('/v1/responses', [spoken]).written, 'spoken');
});
