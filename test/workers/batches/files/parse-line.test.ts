import test from 'ava';
import fc from 'fast-check';
import { endpointNames } from '../../../../shared/endpoints/endpoints.ts';
import { createListedFields } from '../../../../shared/endpoints/fields/listed-fields.ts';
import { parseLine, type ReadLine, readNameAndModel } from '../../../../workers/batches/files/parse-line.ts';
import { batchPlan } from '../../../support/batch-plan.ts';
import { anyField } from '../../../support/read-chat.ts';

const rules = { ...batchPlan(), endpoint: '/v1/chat/completions', listedFields: anyField };
const messages = [{ role: 'user', content: 'hello' }];
const body = { model: 'small-chat', messages };
const line = { custom_id: 'one', method: 'POST', url: '/v1/chat/completions', body };

const parse = (text: string | Uint8Array, number = 2) => parseLine({ number, bytes: Buffer.from(text) }, rules);
const parseJson = (value: unknown, number?: number) => parse(JSON.stringify(value), number);

/** The faults of the file by code and field; of a body that is refused, the field of the 400; or that there are none. */
function faultsOf(read: ReadLine) {
  if ('refused' in read) return read.refused.issues.map(({ path }) => [read.refused.code, path]);
  return 'faults' in read ? read.faults.map(({ code, param }) => [code, param]) : 'none';
}

const { custom_id, method, url, ...nameless } = line;

const wrong: Record<string, { text: string | Uint8Array; errors: [string, string | null][] }> = {
  'bytes that are not UTF-8': { text: Buffer.from([0x7b, 0xff, 0x7d]), errors: [['invalid_utf8', null]] },
  'an incomplete character': { text: Buffer.from('{"a":"ü').subarray(0, -1), errors: [['invalid_utf8', null]] },
  'no JSON': { text: '{"custom_id":', errors: [['invalid_json_line', null]] },
  'two values': { text: '{} {}', errors: [['invalid_json_line', null]] },
  'a scalar': { text: '42', errors: [['invalid_json_line', null]] },
  null: { text: 'null', errors: [['invalid_json_line', null]] },
  'a list': { text: '[{}]', errors: [['invalid_json_line', null]] },
  'no custom_id': { text: JSON.stringify({ method, url, body }), errors: [['invalid_custom_id', 'custom_id']] },
  'an empty custom_id': {
    text: JSON.stringify({ ...line, custom_id: '' }),
    errors: [['invalid_custom_id', 'custom_id']],
  },
  'a custom_id that is a number': {
    text: JSON.stringify({ ...line, custom_id: 1 }),
    errors: [['invalid_custom_id', 'custom_id']],
  },
  'a custom_id of 513 characters': {
    text: JSON.stringify({ ...line, custom_id: 'x'.repeat(513) }),
    errors: [['invalid_custom_id', 'custom_id']],
  },
  'a custom_id with half a surrogate pair': {
    text: JSON.stringify({ ...line, custom_id: 'a\ud83d' }),
    errors: [['invalid_custom_id', 'custom_id']],
  },
  'another method': { text: JSON.stringify({ ...line, method: 'GET' }), errors: [['invalid_method', 'method']] },
  'another url': { text: JSON.stringify({ ...line, url: '/v1/embeddings' }), errors: [['invalid_url', 'url']] },
  'no body': { text: JSON.stringify({ custom_id, method, url }), errors: [['VALIDATION_ERROR', 'body']] },
  'a body that is a list': {
    text: JSON.stringify({ ...line, body: [] }),
    errors: [['VALIDATION_ERROR', 'body']],
  },
  'several faults at once': {
    text: JSON.stringify({ ...nameless, method: 'PUT' }),
    errors: [
      ['invalid_custom_id', 'custom_id'],
      ['invalid_method', 'method'],
      ['invalid_url', 'url'],
    ],
  },
  'a stream': {
    text: JSON.stringify({ ...line, body: { ...body, stream: true } }),
    errors: [['VALIDATION_ERROR', 'stream']],
  },
  'a stream that is not a boolean': {
    text: JSON.stringify({ ...line, body: { ...body, stream: 'yes' } }),
    errors: [['VALIDATION_ERROR', 'stream']],
  },
  'no model': { text: JSON.stringify({ ...line, body: { messages } }), errors: [['VALIDATION_ERROR', 'model']] },
  'an unknown model': {
    text: JSON.stringify({ ...line, body: { ...body, model: 'no-such' } }),
    errors: [['VALIDATION_ERROR', 'model']],
  },
  'a model named like a property of every object': {
    text: JSON.stringify({ ...line, body: { ...body, model: 'constructor' } }),
    errors: [['VALIDATION_ERROR', 'model']],
  },
  'messages of the wrong type': {
    text: JSON.stringify({ ...line, body: { ...body, messages: [{ role: 'user', content: 7 }] } }),
    errors: [['VALIDATION_ERROR', 'messages[0].content']],
  },
  'more tokens than the model may produce': {
    text: JSON.stringify({ ...line, body: { ...body, max_tokens: 4_097 } }),
    errors: [['VALIDATION_ERROR', 'max_tokens']],
  },
};

for (const [name, { text, errors }] of Object.entries(wrong)) {
  test(`refuses a line with ${name}, and names the field`, (t) => {
    const read = parse(text, 7);
    t.deepEqual(faultsOf(read), errors);
    if ('faults' in read) for (const fault of read.faults) t.is(fault.line, 7);
    else t.is('refused' in read && read.customId, 'one');
  });
}

test('refuses a line that is too long, whose bytes were dropped', (t) => {
  t.deepEqual(faultsOf(parseLine({ number: 3, bytes: undefined }, rules)), [['line_too_long', null]]);
});

test('accepts a line with a carriage return, with white space around it, and with unknown fields', (t) => {
  const text = `  ${JSON.stringify({ ...line, note: 'mine' })} \r`;
  t.like(parse(text), { parsed: { customId: 'one', call: { model: 'small-chat', tier: 'guest', stream: false } } });
  t.like(parseJson({ ...line, body: { ...body, stream: false } }), { parsed: { customId: 'one' } });
});

test('keeps a custom id unchanged, up to 512 characters', (t) => {
  for (const id of ['x'.repeat(512), ' ', '__proto__', 'ü\u0000"\\\n', '🙂'.repeat(256)]) {
    t.like(parseJson({ ...line, custom_id: id }), { parsed: { customId: id } });
  }
});

test('returns the custom id of a line whose body is wrong', (t) => {
  t.like(parseJson({ ...line, body: { ...body, stream: true } }), { customId: 'one' });
  t.like(parseJson({ ...line, body: { ...body, model: 'none' } }), { customId: 'one' });
});

test('numbers reach the backend as they were written', (t) => {
  const numbers = '"seed":12345678901234567890,"top_p":0.10000000000000000001,"x":1e400,"y":-0.0,"z":1E2';
  const read = parse(JSON.stringify(line).replace('"model"', `${numbers},"model"`));
  if (!('parsed' in read)) return t.fail(JSON.stringify(read));
  for (const number of ['12345678901234567890', '0.10000000000000000001', '1e400']) {
    t.true(read.parsed.call.payload.includes(number), number);
  }
});

test('a number outside the body that JavaScript cannot represent does not change the body', (t) => {
  const plain = parse(JSON.stringify(line));
  const read = parse(JSON.stringify({ ...line, note: 0 }).replace('"note":0', '"note":12345678901234567890'));
  t.deepEqual(read, plain);
});

test('refuses a line that exceeds the JSON limits, inside or outside its body, before it is parsed', (t) => {
  const deep = `${'['.repeat(500_000)}${']'.repeat(500_000)}`;
  const wide = `[${'{},'.repeat(25_000)}{}]`;
  for (const [value, message] of [
    [deep, 'is nested deeper than 128 levels'],
    [wide, 'has more than 25000 objects, arrays and members together'],
  ]) {
    for (const text of [
      JSON.stringify(line).replace('"model"', `"deep":${value},"model"`),
      JSON.stringify(line).replace('{', `{"note":${value},`),
    ]) {
      const read = parse(text);
      t.deepEqual(read, { faults: [{ code: 'invalid_request', param: 'body', message, line: 2 }] });
    }
  }
});

test('any bytes are a line or faults, and never throw', (t) => {
  const anyJson = fc.json().map((text) => Buffer.from(text));
  const anyBytes = fc.uint8Array({ maxLength: 200 });
  const nearlyRight = fc
    .record(
      {
        custom_id: fc.oneof(fc.string({ unit: 'binary' }), fc.jsonValue()),
        method: fc.oneof(fc.constant('POST'), fc.jsonValue()),
        url: fc.oneof(fc.constant('/v1/chat/completions'), fc.jsonValue()),
        body: fc.oneof(
          fc.jsonValue(),
          fc.record(
            {
              model: fc.oneof(fc.constant('small-chat'), fc.jsonValue()),
              messages: fc.oneof(fc.constant(messages), fc.jsonValue()),
              max_tokens: fc.oneof(fc.integer(), fc.double(), fc.bigInt().map(String)),
              stream: fc.oneof(fc.constant(false), fc.jsonValue()),
              stream_options: fc.jsonValue(),
              n: fc.jsonValue(),
            },
            { requiredKeys: ['model', 'messages'] },
          ),
        ),
      },
      { requiredKeys: [] },
    )
    .map((value) => Buffer.from(JSON.stringify(value)));
  const seen = { parsed: 0, refused: 0 };
  fc.assert(
    fc.property(fc.oneof(anyBytes, anyJson, nearlyRight), fc.integer({ min: 1, max: 3 }), (bytes, number) => {
      const read = parse(bytes, number);
      if ('parsed' in read) {
        seen.parsed++;
        JSON.parse(read.parsed.call.payload);
        return true;
      }
      seen.refused++;
      if ('refused' in read) return read.refused.code === 'VALIDATION_ERROR' && read.customId !== '';
      return read.faults.length > 0 && read.faults.every((fault) => fault.line === number && fault.message !== '');
    }),
    { numRuns: 3_000, examples: [[Buffer.from(JSON.stringify(line)), 1]] },
  );
  t.true(seen.parsed > 0 && seen.refused > 100, JSON.stringify(seen));
});

test('no fault repeats content of the body', (t) => {
  const secret = 'hunter2-secret';
  const values = [secret, [secret], { [secret]: secret }, [[{ a: secret }]]];
  const keys = ['model', 'messages', 'max_tokens', 'n', 'stream', 'tools', 'temperature', 'stop', 'seed', 'user'];
  let refused = 0;
  for (const key of keys) {
    for (const value of values) {
      const read = parseJson({ ...line, body: { ...body, [key]: value } });
      if (!('refused' in read)) continue;
      refused++;
      t.false(read.refused.message.includes(secret), `${key}: ${read.refused.message}`);
    }
  }
  for (const text of [`{"a": ${secret}`, `{"${secret}"`, `${secret}`]) {
    t.false(JSON.stringify(parse(text)).includes(secret));
  }
  t.true(refused > 10, String(refused));
});

test('the name and the model of a line are known also if the line cannot run any more', (t) => {
  const readNamed = (value: unknown) =>
    readNameAndModel({ bytes: Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)) }, rules);
  const named = { customId: 'one', model: 'small-chat' };
  t.deepEqual(readNamed(line), named);
  t.deepEqual(readNamed({ ...line, url: '/v1/embeddings', body: { ...body, messages: 5, x_vendor: 1 } }), named);
  t.deepEqual(readNamed({ ...line, body: { model: 'gone' } }), { customId: 'one', model: undefined });
  t.deepEqual(readNamed({ ...line, body: 5 }), { customId: 'one', model: undefined });
  t.deepEqual(readNamed({ ...line, custom_id: 5 }), { customId: '', model: 'small-chat' });
  for (const other of ['', '{', '[]', '5']) t.deepEqual(readNamed(other), { customId: '', model: undefined });
  t.deepEqual(readNameAndModel({ bytes: undefined }, rules), { customId: '', model: undefined });
});

test('null, halves of surrogate pairs, hosted tools and unknown fields of a line are treated as in a request', (t) => {
  const { models, aliases } = batchPlan();
  const settings = Object.fromEntries(Object.keys(models).map((name) => [name, { unknownFields: 'drop' as const }]));
  const listedFields = createListedFields({ models: settings, mediaHosts: [] });
  const read = (path: string, fields: object) => {
    const offering = Object.entries(models).map(([name, model]) => [name, { ...model, endpoints: endpointNames }]);
    const rules = { models: Object.fromEntries(offering), aliases, endpoint: path, listedFields };
    const text = JSON.stringify({ ...line, url: path, body: { model: 'small-chat', ...fields } });
    const result = parseLine({ number: 1, bytes: Buffer.from(text) }, rules);
    if ('refused' in result) return result.refused.issues.map((issue) => issue.path);
    return 'parsed' in result ? JSON.parse(result.parsed.call.payload) : result.faults;
  };
  const asked = { messages: [{ role: 'user', content: 'a\ud800', name: null }] };
  const whole = { messages: [{ role: 'user', content: 'a\ufffd' }] };
  t.deepEqual(read('/v1/chat/completions', { ...asked, user: null, x_vendor: 1, seed: 1 }), { ...whole, seed: 1 });
  t.deepEqual(read('/v1/chat/completions', { ...asked, priority: 1 }), ['priority']);
  t.deepEqual(read('/v1/chat/completions', { ...asked, tools: [{ type: 'web_search' }] }), ['tools[0].type']);
  const response = read('/v1/responses', { input: 'Hi', tools: [{ type: 'web_search' }] });
  t.deepEqual(response, { input: 'Hi', store: false });
});
