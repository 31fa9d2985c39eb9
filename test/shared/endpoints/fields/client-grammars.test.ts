import test from 'ava';
import { Registry } from 'prom-client';
import { chat } from '../../../../shared/endpoints/chat/chat.ts';
import { createListedFields } from '../../../../shared/endpoints/fields/listed-fields.ts';
import { countRefusedFields, createLimitMetrics } from '../../../../shared/process/metrics.ts';
import { faultyPathsOf, fieldErrorOf, fieldModel, parseFields, readChat } from '../../../support/read-chat.ts';

const format = chat.request.fields;
const messages = [{ role: 'user', content: 'Hi' }];
const pattern = { type: 'object', properties: { a: { type: 'string', pattern: '(a+)+$' } } };
const names = { type: 'array', items: [{ patternProperties: { '(a+)+$': {} } }] };
const property = { properties: { pattern: { type: 'string' } } };

test('a regular expression that the model server would compile is rejected unless guided_regex is listed', async (t) => {
  const tool = (schema: object, more = {}) => ({
    type: 'function',
    function: { name: 'f', parameters: schema, ...more },
  });
  const cases: [fields: object, path: string][] = [
    [{ guided_json: pattern }, 'guided_json.pattern'],
    [{ guided_json: names }, 'guided_json.patternProperties'],
    [{ guided_json: JSON.stringify(pattern, undefined, 2) }, 'guided_json.pattern'],
    [{ guided_json: '{"type":"string","\\u0070attern" : "(a+)+$"}' }, 'guided_json.pattern'],
    [{ json_schema: JSON.stringify(names) }, 'json_schema.patternProperties'],
    [{ structured_outputs: { json: pattern } }, 'structured_outputs.json.pattern'],
    [{ response_format: { type: 'json_object', schema: pattern } }, 'response_format.pattern'],
    [
      { response_format: { type: 'json_schema', json_schema: { name: 'x', schema: pattern } } },
      'response_format.pattern',
    ],
    [{ tools: [tool(property), tool(pattern, { strict: true })] }, 'tools[1].pattern'],
    [{ tools: [tool(names)], tool_choice: 'required' }, 'tools[0].patternProperties'],
    [{ tools: [tool(pattern)], tool_choice: { type: 'function', function: { name: 'f' } } }, 'tools[0].pattern'],
    [{ tools: [tool(pattern)], tool_choice: { type: 'allowed_tools', mode: 'required' } }, 'tools[0].pattern'],
    [{ functions: [{ name: 'f', parameters: pattern }], function_call: { name: 'f' } }, 'functions[0].pattern'],
    [{ messages: [{ role: 'developer', content: 'x', tools: [tool(pattern)] }] }, 'messages[0].tools[0].pattern'],
  ];
  const metrics = createLimitMetrics(new Registry());
  for (const [fields, path] of cases) {
    t.deepEqual(faultyPathsOf(fields), [path]);
    t.true(fieldErrorOf(fields).message.includes('"guided_regex" in extra_fields of the model "m"'));
    t.notThrows(() => parseFields(fields, { extraFields: ['default', 'guided_regex'] }), path);
    countRefusedFields(metrics, '/v1/chat/completions', fieldErrorOf(fields));
  }
  const { values } = await metrics.refusedFields.get();
  const counted = ['functions', 'guided_json', 'json_schema', 'response_format', 'structured_outputs', 'tools'];
  t.deepEqual(values.map(({ labels }) => labels.field).toSorted(), counted);
  for (const fields of [
    { response_format: { type: 'json_schema', json_schema: { name: 'x', schema: property } } },
    { tools: [tool(property, { strict: true })], tool_choice: 'required' },
    { guided_json: property },
    { guided_json: JSON.stringify(property) },
    { guided_json: JSON.stringify({ description: 'A "pattern": "x", in \u00e9' }) },
  ]) {
    t.notThrows(() => parseFields(fields), JSON.stringify(fields));
  }
});

test('a choice of tools demands those that it names, all of them if it may, and none if it may not', (t) => {
  const named = (name: string) => ({ type: 'function', function: { name, parameters: pattern } });
  const tools = [named('f'), named('g'), { name: 'h', input_schema: pattern }];
  const [f, g, h] = tools.map((_, index) => `tools[${index}].pattern`);
  const cases: [choice: unknown, demanded: unknown[]][] = [
    ...['auto', 'none', null, { type: 'auto' }, { type: 'none' }].map((free): [unknown, []] => [free, []]),
    [{ type: 'allowed_tools', allowed_tools: { mode: 'auto', tools: [] } }, []],
    [{ type: 'allowed_tools', mode: 'auto', tools: [] }, []],
    [{ type: 'allowed_tools', allowed_tools: { mode: 'required', tools: [] } }, [f, g, h]],
    [{ type: 'allowed_tools', mode: 'auto', allowed_tools: { mode: 'required' } }, [f, g, h]],
    [{ type: 'allowed_tools' }, [f, g, h]],
    [{ type: 'function', function: { name: 'g' } }, [g]],
    [{ type: 'function', mode: 'auto', function: { name: 'g' } }, [g]],
    [{ type: 'function', name: 'f', function: { name: 'g' } }, [f, g]],
    [{ type: 'tool', name: 'h' }, [h]],
    [{ type: 'function', name: 'other' }, []],
    [{ type: 'any', name: 'f' }, [f, g, h]],
    [{ type: 'function' }, [f, g, h]],
    [{ type: 'mcp', name: 'f' }, [f, g, h]],
    ['required', [f, g, h]],
  ];
  const model = { extraFields: undefined, extraTools: undefined };
  const listed = createListedFields({ models: { m: model }, mediaHosts: [] });
  for (const [tool_choice, demanded] of cases) {
    const found = listed.issuesIn({ model: 'm', messages, tools, tool_choice }, 'm', format);
    t.deepEqual(
      found.map(({ path }) => path),
      demanded,
      JSON.stringify(tool_choice),
    );
  }
  const { dropped } = parseFields({ tools: tools.slice(0, 2), tool_choice: { type: 'allowed_tools', mode: 'auto' } });
  t.deepEqual(dropped, ['tools.pattern']);
});

test('of other tools, regular expressions are removed from the schemas, which the answer says', (t) => {
  const parameters = {
    type: 'object',
    properties: { ...pattern.properties, pattern: { type: 'integer', minimum: 1 } },
    patternProperties: {},
  };
  const tools = [
    { type: 'function', function: { name: 'f', parameters } },
    { type: 'custom', custom: { name: 'g' } },
  ];
  const { dropped, payload: body } = parseFields({
    tools,
    tool_choice: 'auto',
    functions: [{ name: 'h', parameters: property }],
  });
  t.deepEqual(dropped, ['tools.pattern']);
  const kept = { type: 'object', properties: { a: { type: 'string' }, pattern: { type: 'integer', minimum: 1 } } };
  const sent = JSON.parse(body) as { tools: unknown; functions: unknown };
  t.deepEqual(sent.tools, [{ type: 'function', function: { name: 'f', parameters: kept } }, tools[1]]);
  t.deepEqual(sent.functions, [{ name: 'h', parameters: property }]);
  const listed = parseFields({ tools }, { extraFields: ['guided_regex'] });
  t.deepEqual([listed.dropped, (JSON.parse(listed.payload) as { tools: unknown }).tools], [[], tools]);

  const exact =
    '{"model":"m","messages":[{"role":"user","content":"Hi"}],"tools":[{"type":"function","function":{"name":"f","parameters":{"pattern":"a","maximum":12345678901234567890}}}]}';
  const models = { m: fieldModel };
  const rule = createListedFields({ models, mediaHosts: [] });
  t.regex(
    readChat({ value: JSON.parse(exact), text: exact }, models, { rule }).payload,
    /"parameters":\{"maximum":12345678901234567890\}/,
  );
});

/** As agents define a search for files. */
const searching = {
  type: 'object',
  properties: {
    pattern: { type: 'string', default: '**', examples: ['*.ts'] },
    options: { type: 'object', default: { pattern: '*' }, enum: [{ pattern: '*' }], const: { pattern: '*' } },
  },
  examples: [{ pattern: '**/*.ts' }],
  $defs: { again: { $ref: '#' }, default: { $ref: '#/$defs/again' } },
};

test('a value that is named pattern is no regular expression, unless a reference may lead to it', (t) => {
  const input_examples = [{ pattern: '**/*.ts' }];
  const tool = (parameters: object, more: object = {}) => ({
    ...{ type: 'function', function: { name: 'Glob', parameters, ...more } },
    input_examples,
  });
  const plain = parseFields({ tools: [tool(searching)] });
  t.deepEqual([plain.dropped, (JSON.parse(plain.payload) as { tools: unknown }).tools], [[], [tool(searching)]]);
  t.notThrows(() => parseFields({ tools: [tool(searching, { strict: true })], tool_choice: 'required' }));

  const mixed = { ...searching, properties: { ...searching.properties, ...pattern.properties } };
  const cleaned = parseFields({ tools: [tool(mixed)] });
  t.deepEqual(cleaned.dropped, ['tools.pattern']);
  const kept = { ...searching, properties: { ...searching.properties, a: { type: 'string' } } };
  t.deepEqual((JSON.parse(cleaned.payload) as { tools: unknown }).tools, [tool(kept)]);

  const schemas = [
    { properties: { default: { type: 'string', pattern: 'a' } } },
    { $defs: { const: { type: 'string', pattern: 'a' } } },
    { properties: { properties: { properties: { examples: { pattern: 'a' } } } } },
    ...['#/default', '#/properties/a/default', '#a', '#/%64efault', 'https://a.example'].map(($ref) => ({
      ...{ $ref, default: { $anchor: 'a', type: 'string', pattern: '(a+)+$' } },
    })),
  ];
  for (const schema of schemas) {
    t.deepEqual(faultyPathsOf({ guided_json: schema }), ['guided_json.pattern'], JSON.stringify(schema));
    t.deepEqual(faultyPathsOf({ tools: [tool(schema)], tool_choice: 'required' }), ['tools[0].pattern']);
    t.deepEqual(parseFields({ tools: [tool(schema)] }).dropped, ['tools.pattern']);
  }
});

test('a grammar as the input of a custom tool is rejected unless its kind is listed', (t) => {
  const grammar = (syntax: string) => ({ type: 'grammar', grammar: { syntax, definition: 'start: "a"' } });
  const tools = (format: object) => ({ tools: [{ type: 'custom', custom: { name: 'f', format } }] });
  for (const [syntax, listed] of [
    ['lark', 'guided_grammar'],
    ['regex', 'guided_regex'],
    ['other', 'guided_grammar'],
  ] as const) {
    const fields = tools(grammar(syntax));
    t.deepEqual(faultyPathsOf(fields), ['tools[0].custom.format']);
    t.true(fieldErrorOf(fields).message.includes(`"${listed}" in extra_fields`), syntax);
    t.notThrows(() => parseFields(fields, { extraFields: [listed] }));
  }
  const ofResponses = {
    tools: [{ type: 'custom', name: 'f', format: { type: 'grammar', syntax: 'regex', definition: 'a' } }],
  };
  t.deepEqual(faultyPathsOf(ofResponses), ['tools[0].format']);
  t.notThrows(() => parseFields(tools({ type: 'text' })));
});
