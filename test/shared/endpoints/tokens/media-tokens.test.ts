import { randomBytes } from 'node:crypto';
import test from 'ava';
import { endpointAt } from '../../../../shared/endpoints/endpoints.ts';
import { estimateTokens } from '../../../../shared/endpoints/tokens/estimate-tokens.ts';
import { imageSize, tokensByPixels, tokensByTiles } from '../../../../shared/endpoints/tokens/image-tokens.ts';
import { seededRandom } from '../../../support/random.ts';

const hex = (text: string) => Buffer.from(text.replaceAll(' ', ''), 'hex');
const u16 = (value: number) => value.toString(16).padStart(4, '0');
const u32 = (value: number) => value.toString(16).padStart(8, '0');

/** The begin of a PNG, as encoders write it. */
const png = (width: number, height: number) =>
  hex(`89504e470d0a1a0a 0000000d49484452 ${u32(width)}${u32(height)} 0802000000`).toString('base64');
/** A JPEG whose size is behind metadata of this many bytes. */
const jpeg = (width: number, height: number, metadata = 16) =>
  Buffer.concat([
    hex(`ffd8 ffe1${u16(metadata)}`),
    Buffer.alloc(metadata - 2),
    hex(`ffc2 0011 08${u16(height)}${u16(width)}03012200`),
    randomBytes(300),
  ]).toString('base64');

/** The first bytes of images of 1,301 by 977 pixels that Pillow 12 wrote. */
const encoded = {
  PNG: '89504e470d0a1a0a0000000d4948445200000515000003d10802000000ec',
  GIF: '4749463837611505d1038000000000000000002c000000001505d1034008',
  WebP: '5249464640090000574542505650382034090000d014019d012a1505d103',
  'WebP, lossless': '5249464656000000574542505650384c490000002f1405f400071011fd0f',
  'WebP, with transparency': '524946469e09000057454250565038580a00000010000000140500d00300',
};

test('the size of an image is read from its header, in one line of base64 or in many', (t) => {
  const images = Object.entries(encoded).map(([kind, first]) => [kind, hex(first).toString('base64')] as const);
  for (const [kind, data] of [...images, ['JPEG', jpeg(1_301, 977)], ['photo', jpeg(1_301, 977, 60_000)]] as const) {
    t.deepEqual(imageSize(data), [1_301, 977], kind);
    t.deepEqual(imageSize(data.replaceAll(/(.{12})/g, '$1\r\n')), [1_301, 977], `${kind}, in lines`);
    t.deepEqual(imageSize(data.replaceAll('+', '-').replaceAll('/', '_')), [1_301, 977], `${kind}, base64url`);
  }
  const endless = hex(`ffd8${'ffe10002'.repeat(1_000)}`).toString('base64');
  for (const data of [
    '',
    'AAAA',
    png(0, 5),
    hex(encoded.PNG).subarray(0, 20).toString('base64'),
    endless,
    'not base64',
  ])
    t.is(imageSize(data), undefined, data.slice(0, 30));
});

/** Examples of OpenAI's guide "Images and vision" and of Anthropic's guide "Vision". */
const published = [
  { rule: tokensByTiles, width: 1_024, height: 1_024, tokens: 765 },
  { rule: tokensByTiles, width: 2_048, height: 4_096, tokens: 1_105 },
  { rule: tokensByTiles, width: 4_096, height: 8_192, detail: 'low', tokens: 85 },
  { rule: tokensByPixels, width: 200, height: 200, tokens: 54 },
  { rule: tokensByPixels, width: 1_000, height: 1_000, tokens: 1_334 },
  { rule: tokensByPixels, width: 1_092, height: 1_092, tokens: 1_590 },
  // By the rules, without an example.
  { rule: tokensByTiles, width: 300, height: 300, tokens: 85 + 170 },
  { rule: tokensByTiles, width: 513, height: 300, detail: 'high', tokens: 85 + 2 * 170 },
  { rule: tokensByTiles, width: 2_048, height: 768, detail: 'auto', tokens: 85 + 8 * 170 },
  { rule: tokensByPixels, width: 3_136, height: 784, tokens: Math.ceil((1_568 * 392) / 750) },
  // What no decoder accepts costs no more than the largest image.
  { rule: tokensByTiles, width: 2 ** 31, height: 2 ** 31, tokens: 765 },
  { rule: tokensByTiles, width: 2 ** 32 - 1, height: 1, tokens: 85 + 4 * 170 },
  { rule: tokensByPixels, width: 2 ** 31, height: 2 ** 31, tokens: 1_600 },
  { rule: tokensByPixels, width: 2 ** 32 - 1, height: 1, tokens: 1 },
];

for (const { rule, width, height, detail, tokens } of published) {
  test(`an image of ${width} by ${height} pixels, ${detail ?? 'no'} detail, is ${tokens} ${rule.name}`, (t) => {
    t.is(rule(png(width, height), detail), tokens);
  });
}

type Endpoint = 'chat/completions' | 'responses' | 'messages' | 'messages/count_tokens' | 'rerank' | 'embeddings';
type Case = { endpoint: Endpoint; request: object; tokens: number; text?: string };

const blob = (bytes: number) => randomBytes(bytes).toString('base64');
const inLines = (data: string) => data.replaceAll(/(.{76})/g, '$1\r\n');
const dataUrl = (data: string, type = 'image/png') => `data:${type};base64,${data}`;
const chat = (...content: object[]) => ({ messages: [{ role: 'user', content }] });
const input = (...content: object[]) => ({ input: [{ role: 'user', content }] });
const square = png(1_024, 1_024) + blob(60_000);
const opaque = blob(96_000);
const opaqueTokens = 3_000;
const pdf = Buffer.concat([Buffer.from('%PDF-1.7\n%'), hex('e2e3cfd3'), randomBytes(95_986)]).toString('base64');
const pdfTokens = 1_500;
const textFile = 'Say the word. '.repeat(5_000);
const textFileTokens = estimateTokens(textFile);
const asBase64 = (text: string) => Buffer.from(text).toString('base64');
const assistant = (fields: object) => ({ messages: [{ role: 'assistant', content: 'ok', ...fields }] });
const google = { extra_content: { google: { thought_signature: opaque } } };
const source = (data: string, type = 'image/png') => ({ type: 'base64', media_type: type, data });
const screenshot = { type: 'computer_screenshot', image_url: dataUrl(square) };

/** What is not text, in every notation; `tokens` are those of the data. */
const cases: Readonly<Record<string, Case>> = {
  'an image': {
    endpoint: 'chat/completions',
    request: chat({ type: 'image_url', image_url: { url: dataUrl(square) } }),
    tokens: 765,
  },
  'an image as a plain string': {
    endpoint: 'chat/completions',
    request: chat({ type: 'image_url', image_url: dataUrl(square) }),
    tokens: 765,
  },
  'an image in low detail': {
    endpoint: 'chat/completions',
    request: chat({ type: 'image_url', image_url: { url: dataUrl(square), detail: 'low' } }),
    tokens: 85,
  },
  'an image in lines': {
    endpoint: 'chat/completions',
    request: chat({ type: 'image_url', image_url: { url: dataUrl(inLines(square)) } }),
    tokens: 765,
  },
  'an image of another format': {
    endpoint: 'chat/completions',
    request: chat({ type: 'image_url', image_url: { url: dataUrl(blob(50_000), 'image/avif') } }),
    tokens: 1_500,
  },
  'an image at an address': {
    endpoint: 'chat/completions',
    request: chat({ type: 'image_url', image_url: { url: 'https://a.example/a.png' } }),
    tokens: 1_500,
  },
  'an image in the result of a tool': {
    endpoint: 'chat/completions',
    request: { messages: [{ role: 'tool', content: [{ type: 'image_url', image_url: { url: dataUrl(square) } }] }] },
    tokens: 765,
  },
  sound: {
    endpoint: 'chat/completions',
    request: chat({ type: 'input_audio', input_audio: { data: blob(30_000), format: 'wav' } }),
    tokens: 300,
  },
  'sound as a data address': {
    endpoint: 'chat/completions',
    request: chat({ type: 'input_audio', input_audio: { data: dataUrl(blob(30_000), 'audio/wav'), format: 'wav' } }),
    tokens: 300,
  },
  audio_url: {
    endpoint: 'chat/completions',
    request: chat({ type: 'audio_url', audio_url: { url: dataUrl(blob(30_000), 'audio/wav') } }),
    tokens: 300,
  },
  video_url: {
    endpoint: 'chat/completions',
    request: chat({ type: 'video_url', video_url: { url: dataUrl(blob(64_000), 'video/mp4') } }),
    tokens: 1_000,
  },
  'an image of SGLang': {
    endpoint: 'chat/completions',
    request: chat({ type: 'image', image: dataUrl(square) }),
    tokens: 765,
  },
  'media without types': {
    endpoint: 'chat/completions',
    request: chat(
      { image_url: { url: dataUrl(square) } },
      { image: dataUrl(square) },
      { audio_url: dataUrl(blob(30_000), 'audio/wav') },
      { video_url: { url: dataUrl(blob(64_000), 'video/mp4') } },
    ),
    tokens: 2 * 765 + 300 + 1_000,
  },
  'a PDF': {
    endpoint: 'chat/completions',
    request: chat({ type: 'file', file: { filename: 'a.pdf', file_data: dataUrl(pdf, 'application/pdf') } }),
    tokens: pdfTokens,
  },
  'a file of text counts as its text': {
    endpoint: 'chat/completions',
    request: chat({
      type: 'file',
      file: { filename: 'a.pdf', file_data: dataUrl(asBase64(textFile), 'application/pdf') },
    }),
    tokens: textFileTokens,
    text: textFile,
  },
  reasoning_details: {
    endpoint: 'chat/completions',
    request: assistant({ reasoning_details: [{ type: 'reasoning.encrypted', data: opaque }] }),
    tokens: opaqueTokens,
  },
  'the signature of reasoning_details': {
    endpoint: 'chat/completions',
    request: assistant({ reasoning_details: [{ type: 'reasoning.text', text: 'Hm', signature: opaque }] }),
    tokens: opaqueTokens,
  },
  thinking_blocks: {
    endpoint: 'chat/completions',
    request: assistant({
      thinking_blocks: [
        { type: 'thinking', thinking: 'Hm', signature: opaque },
        { type: 'redacted_thinking', data: opaque },
      ],
    }),
    tokens: 2 * opaqueTokens,
  },
  'the thought signature of a call': {
    endpoint: 'chat/completions',
    request: assistant({ tool_calls: [{ id: 'c', type: 'function', function: { name: 'f' }, ...google }] }),
    tokens: opaqueTokens,
  },
  'the thought signature of a message': {
    endpoint: 'chat/completions',
    request: assistant(google),
    tokens: opaqueTokens,
  },
  'all of them in one message': {
    endpoint: 'chat/completions',
    request: assistant({
      ...{ ...google, tool_calls: [google, google] },
      reasoning_details: [{ type: 'reasoning.encrypted', data: opaque }],
    }),
    tokens: 4 * opaqueTokens,
  },
  input_image: {
    endpoint: 'responses',
    request: input({ type: 'input_image', image_url: dataUrl(square) }),
    tokens: 765,
  },
  'input_image in low detail': {
    endpoint: 'responses',
    request: input({ type: 'input_image', image_url: dataUrl(inLines(square)), detail: 'low' }),
    tokens: 85,
  },
  'a screenshot': {
    endpoint: 'responses',
    request: { input: [{ type: 'computer_call_output', call_id: 'c', output: screenshot }] },
    tokens: 765,
  },
  'an image in the output of a function': {
    endpoint: 'responses',
    request: { input: [{ type: 'function_call_output', call_id: 'c', output: [screenshot] }] },
    tokens: 765,
  },
  'a file': {
    endpoint: 'responses',
    request: input({ type: 'input_file', filename: 'a.pdf', file_data: dataUrl(pdf, 'application/pdf') }),
    tokens: pdfTokens,
  },
  'encrypted reasoning': {
    endpoint: 'responses',
    request: { input: [{ type: 'reasoning', summary: [], encrypted_content: opaque }] },
    tokens: opaqueTokens,
  },
  'a compaction': {
    endpoint: 'responses',
    request: { input: [{ type: 'compaction', encrypted_content: opaque }] },
    tokens: opaqueTokens,
  },
  'a summary of a compaction': {
    endpoint: 'responses',
    request: { input: [{ type: 'compaction_summary', encrypted_content: opaque }] },
    tokens: opaqueTokens,
  },
  'an encrypted part': {
    endpoint: 'responses',
    request: input({ type: 'encrypted_content', encrypted_content: opaque }),
    tokens: opaqueTokens,
  },
  'an image that was generated': {
    endpoint: 'responses',
    request: { input: [{ type: 'image_generation_call', id: 'a', status: 'completed', result: square }] },
    tokens: 765,
  },
  'compaction of messages': {
    endpoint: 'messages',
    request: chat({ type: 'compaction', content: 's', encrypted_content: opaque, signature: opaque }),
    tokens: 2 * opaqueTokens,
  },
  'results of a search': {
    endpoint: 'messages',
    request: chat({
      ...{ type: 'web_search_tool_result', tool_use_id: 'a' },
      content: [{ type: 'web_search_result', url: 'https://a.example', title: 't', encrypted_content: opaque }],
    }),
    tokens: opaqueTokens,
  },
  'citations of a search': {
    endpoint: 'messages',
    request: chat({
      ...{ type: 'text', text: 'a' },
      citations: [{ type: 'web_search_result_location' }, { encrypted_index: opaque }, { encrypted_index: opaque }],
    }),
    tokens: 2 * opaqueTokens,
  },
  'image of messages': {
    endpoint: 'messages',
    request: chat({ type: 'image', source: source(square) }),
    tokens: Math.ceil((1_024 * 1_024) / 750),
  },
  'image of messages, in lines': {
    endpoint: 'messages',
    request: chat({ type: 'image', source: source(inLines(square)) }),
    tokens: Math.ceil((1_024 * 1_024) / 750),
  },
  'image of messages, at an address': {
    endpoint: 'messages',
    request: chat({ type: 'image', source: { type: 'url', url: 'https://a.example/a.png' } }),
    tokens: 1_500,
  },
  'image in a tool_result': {
    endpoint: 'messages',
    request: chat({ type: 'tool_result', tool_use_id: 'x', content: [{ type: 'image', source: source(square) }] }),
    tokens: Math.ceil((1_024 * 1_024) / 750),
  },
  'image in a document': {
    endpoint: 'messages',
    request: chat({
      ...{ type: 'document' },
      source: { type: 'content', content: [{ type: 'image', source: source(square) }] },
    }),
    tokens: Math.ceil((1_024 * 1_024) / 750),
  },
  document: {
    endpoint: 'messages',
    request: chat({ type: 'document', source: source(pdf, 'application/pdf') }),
    tokens: pdfTokens,
  },
  signature: {
    endpoint: 'messages',
    request: chat({ type: 'thinking', thinking: 'hm', signature: opaque }),
    tokens: opaqueTokens,
  },
  redacted_thinking: {
    endpoint: 'messages',
    request: chat({ type: 'redacted_thinking', data: opaque }),
    tokens: opaqueTokens,
  },
  'an image to count': {
    endpoint: 'messages/count_tokens',
    request: chat({ type: 'image', source: source(square) }),
    tokens: Math.ceil((1_024 * 1_024) / 750),
  },
  'an image to rank': {
    endpoint: 'rerank',
    request: { query: 'Hi', documents: [{ content: [{ type: 'image_url', image_url: { url: dataUrl(square) } }] }] },
    tokens: 765,
  },
  'an image that two documents are ranked by': {
    endpoint: 'rerank',
    request: {
      query: { content: [{ type: 'image_url', image_url: { url: dataUrl(square) } }] },
      documents: ['a', 'b'],
    },
    tokens: 2 * 765,
  },
  'messages in place of an input': {
    endpoint: 'embeddings',
    request: { model: 'm', ...chat({ type: 'image_url', image_url: { url: dataUrl(square) } }) },
    tokens: 765,
  },
};

/** Names of fields, addresses, and what is around messages. */
const aroundMax = 150;

for (const [kind, { endpoint, request, tokens, text }] of Object.entries(cases)) {
  test(`${endpoint}: ${kind} is ${tokens} tokens`, (t) => {
    const format = endpointAt(`/v1/${endpoint}`).request;
    const estimate = format.estimatePrompt(request, JSON.stringify(request));
    t.true(estimate >= tokens && estimate <= tokens + aroundMax, `${estimate} reserved`);
    const prompt = format.promptOf(request);
    if (text !== undefined) return t.deepEqual(prompt, { texts: ['', text], tokens: 4 }, 'the tokenizer gets it');
    t.true(prompt.tokens >= tokens && prompt.tokens <= tokens + 8, `${prompt.tokens} of the prompt`);
    t.true(prompt.texts.join('').length < 200, 'the tokenizer gets no data');
  });
}

const words = 'hidden words '.repeat(1_000);
const long = words.replaceAll(' ', '_');

/** What looks like opaque data, and could get into a prompt as text. */
const texts: Readonly<Record<string, Omit<Case, 'tokens'>>> = {
  'a signature that is no base64': { endpoint: 'messages', request: chat({ type: 'thinking', signature: words }) },
  'short lines': {
    endpoint: 'messages',
    request: chat({ type: 'redacted_thinking', data: words.replaceAll(' ', '\n') }),
  },
  'a signature in a text': { endpoint: 'messages', request: chat({ type: 'text', text: 'a', signature: long }) },
  'data in a message of a user': {
    endpoint: 'chat/completions',
    request: {
      messages: [{ role: 'user', content: 'a', reasoning_details: [{ type: 'reasoning.encrypted', data: long }] }],
    },
  },
  'data of another type': {
    endpoint: 'chat/completions',
    request: assistant({ reasoning_details: [{ type: 'reasoning.text', data: long }] }),
  },
  'encrypted content of a message': {
    endpoint: 'responses',
    request: { input: [{ type: 'message', role: 'user', content: 'a', encrypted_content: long }] },
  },
  'encrypted content of the request': { endpoint: 'responses', request: { input: 'a', encrypted_content: long } },
  'an image that is no base64': {
    endpoint: 'chat/completions',
    request: chat({ type: 'image_url', image_url: { url: `data:image/png;base64,${words}` } }),
  },
  'an image as a text': { endpoint: 'chat/completions', request: chat({ type: 'text', text: dataUrl(long) }) },
  'an image in a field of its own': { endpoint: 'chat/completions', request: { ...chat(), image: dataUrl(long) } },
  'a video that is no base64': {
    endpoint: 'chat/completions',
    request: chat({ type: 'video_url', video_url: { url: `data:video/mp4;base64,${words}` } }),
  },
  'what is beside the address of a video': {
    endpoint: 'chat/completions',
    request: chat({ type: 'video_url', video_url: { url: dataUrl('AAAA', 'video/mp4'), note: long } }),
  },
  'an image in a message': {
    endpoint: 'chat/completions',
    request: { messages: [{ role: 'user', content: 'a', image: dataUrl(long) }] },
  },
  'an image that was generated and is no base64': {
    endpoint: 'responses',
    request: { input: [{ type: 'image_generation_call', result: words }] },
  },
  'a result of a search that is no base64': {
    endpoint: 'messages',
    request: chat({ type: 'web_search_result', encrypted_content: words }),
  },
  'the index of a citation that is no base64': {
    endpoint: 'messages',
    request: chat({ type: 'text', text: 'a', citations: [{ encrypted_index: words }] }),
  },
  'an index beside the citations': {
    endpoint: 'messages',
    request: chat({ type: 'text', text: 'a', encrypted_index: long }),
  },
  'a file that is no base64': { endpoint: 'responses', request: input({ type: 'input_file', file_data: words }) },
};

for (const [kind, { endpoint, request }] of Object.entries(texts)) {
  test(`${endpoint}: ${kind} counts as text`, (t) => {
    const estimate = endpointAt(`/v1/${endpoint}`).request.estimatePrompt(request, JSON.stringify(request));
    t.true(estimate > 2_000, `${estimate}`);
  });
}

test('any object can be read, in every endpoint', (t) => {
  const random = seededRandom(4);
  const values = [null, 5, '', 'AAAA', [], [null], {}, { type: 'base64', data: 5 }, { url: 5 }, [[[{}]]], true];
  const types = ['image_url', 'input_image', 'computer_screenshot', 'input_audio', 'file', 'input_file', 'image'];
  const more = ['audio_url', 'video_url', 'image_generation_call', 'web_search_result', null];
  const allTypes = [
    ...types,
    'document',
    'thinking',
    'redacted_thinking',
    'reasoning',
    'compaction',
    'text',
    5,
    ...more,
  ];
  const names = ['image_url', 'input_audio', 'file', 'file_data', 'source', 'signature', 'data', 'encrypted_content'];
  const allNames = [
    ...names,
    ...['audio_url', 'video_url', 'image', 'citations', 'encrypted_index', 'result'],
    'reasoning_details',
    'thinking_blocks',
    'tool_calls',
    'extra_content',
    'content',
    'output',
    'role',
    'detail',
  ];
  const part = (): object => ({
    ...{ type: random.oneOf(allTypes), role: 'assistant' },
    ...Object.fromEntries(
      [1, 2, 3].map(() => [random.oneOf(allNames), random.oneOf([...values, [{}], 'hello world'])]),
    ),
  });
  for (let run = 0; run < 300; run++) {
    const held = random() < 0.5 ? part() : { ...part(), content: [part(), part()], output: part(), source: part() };
    const request = { ...{ messages: [held], input: [held], query: held, documents: [held, held], system: [held] } };
    for (const path of ['chat/completions', 'completions', 'embeddings', 'responses', 'messages', 'rerank']) {
      const format = endpointAt(`/v1/${path}`).request;
      t.true(format.estimatePrompt(request, JSON.stringify(request)) > 0);
      const { texts: found, tokens } = format.promptOf(request);
      t.true(found.every((text) => typeof text === 'string') && Number.isSafeInteger(tokens));
    }
  }
});
