import test from 'ava';
import { type Tool, unaskedCall } from './model-server/model/choose-tool.ts';

const asked = { role: 'user', content: 'Do it.' };
const result = { role: 'tool', content: 'done' };
const argumentsOf = (tool: Tool) => JSON.parse(unaskedCall([tool], [asked])?.arguments ?? '');

test('the simulated model calls a shell, else a function, else a custom tool, and ends after two results', (t) => {
  const custom = { name: 'apply', isCustom: true };
  const [lookup, shell] = [{ name: 'lookup' }, { name: 'exec_command' }];
  const nameOf = (...tools: Tool[]) => unaskedCall(tools, [asked])?.tool.name;
  t.is(nameOf(custom, lookup, shell), 'exec_command');
  t.is(nameOf(custom, lookup), 'lookup');
  t.is(nameOf(custom), 'apply');
  const exec = { name: 'exec', namespace: 'functions', isCustom: true, runsScripts: true };
  const script = 'text((await tools.exec_command({ cmd: "echo \\"step $((0 + 1)) of 2\\"" })).output);';
  t.deepEqual(unaskedCall([lookup, exec], [asked]), { tool: exec, arguments: script });
  t.is(nameOf(), undefined);
  t.is(unaskedCall([custom], [asked, result])?.arguments, 'echo "step $((1 + 1)) of 2"');
  t.is(unaskedCall([shell], [asked, result, result]), undefined);
  t.is(unaskedCall([shell], [asked, result, asked, result]), undefined, 'in the whole conversation');
});

test('its arguments have what the schema of the tool requires, and its command', (t) => {
  const command = 'echo "step $((0 + 1)) of 2"';
  const properties = {
    command: { type: 'string' },
    mode: { enum: ['fast', 'slow'] },
    kind: { const: 'x' },
    count: { type: 'integer', minimum: 3 },
    size: { type: ['number', 'null'] },
    on: { type: 'boolean' },
    words: { type: 'array', items: { type: 'string' }, minItems: 1 },
    rest: { type: 'array', items: {} },
    inner: { type: 'object', properties: { a: { type: 'string' }, b: {} }, required: ['a'] },
    either: { anyOf: [{ type: 'null' }, { type: 'string' }] },
  };
  const schema = {
    type: 'object',
    properties: { ...properties, left: { type: 'string' } },
    required: Object.keys(properties),
  };
  t.deepEqual(argumentsOf({ name: 'any', schema }), {
    ...{ command, mode: 'fast', kind: 'x', count: 3, size: 1, on: false, words: ['text'], rest: [] },
    ...{ inner: { a: 'text' }, either: null },
  });
  const words = { type: 'object', properties: { cmd: { type: 'array', items: { type: 'string' } } } };
  t.deepEqual(argumentsOf({ name: 'shell', schema: words }), { cmd: ['bash', '-c', command] });
  for (const strange of [undefined, null, 5, 'x', [], { properties: 5, required: 'x' }]) {
    t.deepEqual(argumentsOf({ name: 'any', schema: strange }), {});
  }
});
