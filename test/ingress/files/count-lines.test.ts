import test from 'ava';
import { createCountLines } from '../../../ingress/files/receive-file.ts';
import { lineBytesMax } from '../../../shared/batches/batch.ts';
import { estimateChatPrompt } from '../../../shared/endpoints/chat/chat-request.ts';
import { estimateTokens } from '../../../shared/endpoints/tokens/estimate-tokens.ts';

function count(text: string, linesMax = 50_000) {
  const counting = createCountLines({ linesMax });
  counting.push(Buffer.from(text));
  return counting.end();
}

const chat = { model: 'small-chat', messages: [{ role: 'user', content: 'How are you today?' }] };
const line = JSON.stringify({ custom_id: 'a', method: 'POST', url: '/v1/chat/completions', body: chat });

test('counts every line except those of white space, also a last one without a line feed', (t) => {
  t.is(count('a').lines, 1);
  t.is(count('a\n').lines, 1);
  t.is(count('\n\r\n\nb').lines, 1);
  t.is(count(`\ufeff${line}\n \t\n${line}`).tokens, 2 * count(line).tokens);
});

test('a chat request counts like its prompt does elsewhere', (t) => {
  const tokens = estimateChatPrompt(chat, JSON.stringify(chat));
  t.is(count(line).tokens, tokens);
  t.is(count(`${line}\r\n${line}\n`).tokens, 2 * tokens);
});

test('an image counts as an image and not as its base64 text', (t) => {
  const url = `data:image/png;base64,${'A'.repeat(100_000)}`;
  const body = { messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url } }] }] };
  t.true(count(JSON.stringify({ url: '/v1/chat/completions', body })).tokens < 2_000);
});

test('a line that is not a chat request counts as text, without an error', (t) => {
  const others = ['{"a":', 'null', '5', '"text"', '[]', '{}', '{"body":null}', '{"body":{"messages":"Hi"}}'];
  for (const other of others) t.deepEqual(count(`${other}\n`), { lines: 1, tokens: estimateTokens(other) });
  const counting = createCountLines({ linesMax: 2 });
  counting.push(Buffer.of(0xff, 0xfe, 0x0a));
  t.is(counting.end().lines, 1);
});

test('a line beyond the bounds of JSON counts as text, and one within them as its prompt', (t) => {
  const nested = (depth: number, content: (inner: string) => string) =>
    `{"url":"/v1/chat/completions","body":{"messages":[${content('['.repeat(depth) + ']'.repeat(depth))}]}}`;
  for (const deep of [
    nested(2_000_000, (inner) => inner),
    nested(126, (inner) => inner),
    nested(100_000, (inner) => `{"role":"user","content":${inner}}`),
    `{"url":"/v1/chat/completions","body":{"messages":[${'[],'.repeat(25_000)}[]]}}`,
  ]) {
    t.deepEqual(count(`${deep}\n${line}`), { lines: 2, tokens: estimateTokens(deep) + count(line).tokens });
  }
  const shallow = nested(125, (inner) => inner);
  const { body } = JSON.parse(shallow);
  t.is(count(shallow).tokens, estimateChatPrompt(body, JSON.stringify(body)));
});

test('a line beyond the limit is refused by its number, and the last one within it is not', (t) => {
  t.is(count('a\nb\n', 2).lines, 2);
  t.is(count('\n\na\n\nb\n\n', 2).lines, 2);
  t.throws(() => count('a\nb\nc', 2), { message: 'file: line 3: a file has at most 2 lines' });
  t.throws(() => count('a\n\nb\n\nc', 2), { message: 'file: line 5: a file has at most 2 lines' });
});

test('lines of white space are bounded, too', (t) => {
  t.is(count(`a${'\n'.repeat(20)}`, 2).lines, 1);
  t.throws(() => count(`a\n${' \n'.repeat(20)}`, 2), {
    message: 'file: has more than 20 lines, with those of white space',
  });
});

test('a line that is too long is refused by its number before its end, and one of the maximum length is not', (t) => {
  const longest = `${JSON.stringify('x'.repeat(lineBytesMax - 2))}\n`;
  t.is(count(`a\n${longest}b`).lines, 3);
  const counting = createCountLines({ linesMax: 5 });
  counting.push(Buffer.from('a\n'));
  t.throws(() => counting.push(Buffer.alloc(lineBytesMax + 1, 'x')), {
    message: 'file: line 2: is longer than 4194304 bytes',
  });
});

test('an empty file is refused', (t) => {
  for (const text of ['', '\n', '\ufeff', '\ufeff \r\n\t']) t.throws(() => count(text), { message: 'file: is empty' });
});
