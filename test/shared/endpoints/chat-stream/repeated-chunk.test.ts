import test from 'ava';
import fc from 'fast-check';
import { chatKind } from '../../../../shared/endpoints/chat/chat.ts';
import { createChunkConverter } from '../../../../shared/endpoints/chat-stream/convert-chunks.ts';
import { type Chunk, parseChunk } from '../../../../shared/endpoints/chat-stream/follow-answer.ts';
import { createRepeatedChunks } from '../../../../shared/endpoints/chat-stream/repeated-chunk.ts';
import { heapInUse } from '../../../support/collect-garbage.ts';
import { streamOptions } from '../../../support/stream-options.ts';

const head = '"object":"chat.completion.chunk","created":1754000000,"model":"m"';
const choice = (delta: string, rest = '') => `"choices":[{"index":0,"delta":{${delta}},"finish_reason":null${rest}}]`;
/** A chunk. */
function parsed(data: string): Chunk {
  const chunk = parseChunk(data);
  if (chunk === undefined) throw new Error('this is no chunk');
  return chunk;
}
const quoted = (text: string) => JSON.stringify(text);

/** The chunks of different model servers, by their text. */
const servers: Record<string, (text: string, turn: number) => string> = {
  OpenAI: (text, turn) =>
    `{"id":"c",${head},"service_tier":"default",${choice(`"content":${quoted(text)}`)},"usage":null,"obfuscation":"${'xY7'.repeat(turn % 4)}"}`,
  vLLM: (text) => `{"id":"c",${head},${choice(`"content":${quoted(text)}`, ',"logprobs":null')}}`,
  'llama.cpp': (text, turn) =>
    `{${choice(`"content":${quoted(text)}`)},"created":${1_754_000_000 + Math.floor(turn / 5)},"id":"c","model":"m"}`,
  'one that writes white space': (text) =>
    `{"id": "c", "model": "m", "choices": [{"delta": {"content": ${quoted(text)}}}]}`,
  'one that writes several lines': (text) =>
    JSON.stringify(JSON.parse(`{${head},${choice(`"content":${quoted(text)}`)}}`), null, 1),
  'one with another name for the model': (text) =>
    `{"model":"other",${choice(`"role":"assistant","content":${quoted(text)}`)}}`,
  'one that reasons': (text) => `{${head},${choice(`"content":null,"reasoning_content":${quoted(text)}`)}}`,
  'one with a text besides the content': (text) => `{${head},${choice(`"content":"","reasoning":${quoted(text)}`)}}`,
};

/** What the client gets of these events, and what is counted, with and without learning from earlier chunks. */
function converted(events: readonly string[], known: boolean) {
  let converter = createChunkConverter(chatKind, streamOptions({ model: 'm' }));
  let sample = '';
  const sent = events.map((data) => {
    if (!known) converter = createChunkConverter(chatKind, streamOptions({ model: 'm' }));
    const ready = converter.take(data);
    if (!known) sample += converter.text().sample;
    return { ready, written: converter.written(), begun: converter.begun() };
  });
  return { sent, sample: known ? converter.text().sample : sample };
}

for (const [server, write] of Object.entries(servers)) {
  test(`the client's text and the counted text are the same as if each chunk was parsed: ${server}`, (t) => {
    fc.assert(
      fc.property(fc.array(fc.string({ unit: 'binary', minLength: 1, maxLength: 12 }), { maxLength: 12 }), (texts) => {
        const events = texts.map(write);
        t.deepEqual(converted(events, true), converted(events, false));
      }),
      { numRuns: 200 },
    );
  });

  test(`most chunks are not parsed: ${server}`, (t) => {
    const repeated = createRepeatedChunks((data) => data);
    const texts = [' the', ' größe', '\n', ' "said"', '\\', '🎉', ' a', ' b', ' c', ' d'];
    const read = texts.map(write).filter((data) => {
      const found = repeated.read(data);
      if (found === undefined) repeated.learn(data, parsed(data));
      return found !== undefined;
    });
    t.true(read.length >= 8, `${read.length} of ${texts.length}`);
  });
}

const [text, next] = ['a', 'b'].map((content) => `{${head},${choice(`"content":"${content}"`)}}`) as [string, string];

/** Each is like the chunk before it, but has to be parsed. */
const unlike: Record<string, string> = {
  'it ends': next.replace('null', '"stop"'),
  'it has another choice': next.replace('"index":0', '"index":1'),
  'it has a usage': `${next.slice(0, -1)},"usage":{"prompt_tokens":1,"completion_tokens":2}}`,
  'it has an error': `${next.slice(0, -1)},"error":{"message":"no"}}`,
  'it has another model': next.replace('"m"', '"n"'),
  'it has another field in its delta': next.replace('"content"', '"reasoning":"c","content"'),
  'its text ends too soon': next.replace('"b"', '"b'),
  'its text continues after its end': next.replace('"b"', '"b"c"'),
  'its text has a control character': next.replace('"b"', '"b\u0001"'),
  'its text has an invalid escape': next.replace('"b"', '"b\\x"'),
  'its text is not a string': next.replace('"b"', 'null'),
  'its text is empty': next.replace('"b"', '""'),
  'something follows': `${next}}`,
  'it is cut short': next.slice(0, -1),
};

for (const [what, data] of Object.entries(unlike)) {
  test(`a chunk is parsed if ${what}`, (t) => {
    const repeated = createRepeatedChunks((given) => given);
    repeated.learn(text, parsed(text));
    t.deepEqual(repeated.read(next), { text: 'b', sent: next });
    t.is(repeated.read(data), undefined);
  });
}

/** Nothing may be learned from these: more than the text differs. */
const notLearned: Record<string, string> = {
  'has ended': text.replace('null', '"stop"'),
  'has a usage': `${text.slice(0, -1)},"usage":{"prompt_tokens":1,"completion_tokens":2}}`,
  'calls a tool': `{${head},${choice('"tool_calls":[{"index":0,"function":{"arguments":"a"}}]')}}`,
  'has two choices': `{${head},"choices":[{"index":0,"delta":{"content":"a"}},{"index":1,"delta":{"content":"a"}}]}`,
  'has its text twice': `{${head},${choice('"content":"a","other":"a"')}}`,
  'has its text under a name twice': `{${head},${choice('"content":"a","content":"a"')}}`,
  'has its text outside the choices': `{${head},"content":"a",${choice('"text":"a"')}}`,
};

for (const [what, data] of Object.entries(notLearned)) {
  test(`nothing is learned from a chunk that ${what}`, (t) => {
    const repeated = createRepeatedChunks((given) => given);
    repeated.learn(data, parsed(data));
    t.is(repeated.read(data), undefined);
  });
}

test('learning from a backend whose chunks always differ ends', (t) => {
  let presented = 0;
  const repeated = createRepeatedChunks((data) => {
    presented++;
    return data;
  });
  for (let turn = 0; turn < 1_000; turn++) {
    const data = `{"id":"${turn}",${head},${choice('"content":"a"')}}`;
    t.is(repeated.read(data), undefined);
    repeated.learn(data, parsed(data));
  }
  t.true(presented < 10, `${presented} times`);
});

test('the chunks that end a stream, and its usage chunk, have the fields of the latest chunk', (t) => {
  const converter = createChunkConverter(chatKind, streamOptions({ model: 'm' }));
  for (let turn = 0; turn < 9; turn++) converter.take(servers.OpenAI?.('a', turn) ?? '');
  const last = converter.take(servers.OpenAI?.('b', 3) ?? '');
  t.true(last.includes('"obfuscation":"xY7xY7xY7"'));
  t.true(converter.cut(1).includes('"obfuscation":"xY7xY7xY7"'));
  t.true(
    converter
      .end({ promptTokens: 1, completionTokens: 2 }, { includeUsage: true })
      .includes('"obfuscation":"xY7xY7xY7"'),
  );
});

test('a text that is kept for counting does not keep its event in memory', (t) => {
  const { vLLM } = servers;
  const converter = createChunkConverter(chatKind, streamOptions({ model: 'm' }));
  const before = heapInUse();
  const events = 20_000;
  for (let turn = 0; turn < events; turn++) converter.take(vLLM?.(` ${turn} of twenty letters`, turn) ?? '');
  const characters = converter.text().characters;
  t.true(characters > 20 * events);
  t.true(heapInUse() - before < 4 * characters);
});
