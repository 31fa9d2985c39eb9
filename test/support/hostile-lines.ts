import fc from 'fast-check';
import { line } from './file-client.ts';

/** JSON nested to this depth. */
export const nested = (depth: number) => `${'['.repeat(depth)}0${']'.repeat(depth)}`;

const numbers = fc.constantFrom('1e999', '-1e999', '9'.repeat(400), '0.1e-400', '-0', '9007199254740993', '1E+0', '01');
const surrogates = fc.constantFrom('"\\ud800"', '"\\udc00\\ud800"', '"\\uD83D\\uDE00\\uD83D"', '"\\u0000"', '"\\ud8"');
const depths = fc.oneof(fc.integer({ min: 1, max: 500 }), fc.constantFrom(2_000, 10_000, 50_000));
const values = fc.oneof(
  numbers,
  surrogates,
  depths.map(nested),
  fc.json({ maxDepth: 3 }),
  fc.constantFrom('null', '[]', '{}', '"', '[', 'NaN', '{"__proto__":{"messages":[]}}', '{"toJSON":1}'),
);
const names = fc.constantFrom(
  ...['custom_id', 'method', 'url', 'body', 'messages', 'content', 'role', 'model'],
  ...['__proto__', 'constructor', 'toJSON', 'length', '\\ud800', ''],
);

/** The same name may appear twice. */
const objects = (members: fc.Arbitrary<string>) =>
  fc
    .array(fc.tuple(names, members), { maxLength: 6 })
    .map((pairs) => `{${pairs.map(([name, value]) => `"${name}":${value}`).join()}}`);
const chats = fc
  .array(fc.oneof(values, objects(values)), { maxLength: 4 })
  .map((messages) => `{"body":{"messages":[${messages.join()}],"messages":[${messages.join()}]}}`);
const media = fc
  .tuple(fc.constantFrom('image_url', 'input_audio', 'file'), values)
  .map(([type, value]) => `{"body":{"messages":[{"content":[{"type":"${type}","${type}":${value}}]}]}}`);

/** Lines of an input file, valid, almost valid or invalid, with line ends of both kinds. */
export const hostileLines: fc.Arbitrary<string> = fc
  .array(fc.oneof(fc.constant(line('a')), values, objects(fc.oneof(values, objects(values))), chats, media), {
    minLength: 1,
    maxLength: 6,
  })
  .chain((lines) => fc.constantFrom('\n', '\r\n', '\n\n').map((end) => lines.join(end)));
