import test from 'ava';
import {
  sdkCalls,
  writeCurl,
  writeNode,
  writePython,
} from '../../../../ingress/documentation/reference/example-programs.ts';
import { printJson } from '../../../../ingress/documentation/reference/print-value.ts';
import { readDocument } from '../../../../ingress/documentation/reference/read-document.ts';
import { type RequestExample, requestExample } from '../../../../ingress/documentation/reference/request-example.ts';
import { openApiDocument } from '../../../support/documented/schema-faults.ts';

const baseUrl = 'https://api.example.com';
const operations = readDocument(openApiDocument).groups.flatMap((group) => group.operations);
const exampleOf = (id: string) => {
  const operation = operations.find(({ operationId }) => operationId === id);
  if (operation === undefined) throw new Error(`there is no operation ${id}`);
  return requestExample(operation, { baseUrl, models: { chat: 'my/chat' }, modelAt: () => 'my-model' });
};

test('one request is written in three languages: with a model of this service, and the credential that the route takes', (t) => {
  const chat = exampleOf('createChatCompletion');
  t.is(chat.body?.model, 'my-model');
  t.is(
    writeCurl(chat),
    `curl -s https://api.example.com/v1/chat/completions \\
  -H "authorization: Bearer $KEY" \\
  -H 'content-type: application/json' \\
  -d '{
    "model": "my-model",
    "messages": [{"role": "user", "content": "Hello"}]
  }'`,
  );
  t.is(
    writeNode(chat),
    `import OpenAI from 'openai';

const client = new OpenAI({
  baseURL: 'https://api.example.com/openai/v1',
  apiKey: process.env.KEY,
});
const answer = await client.chat.completions.create({
  model: 'my-model',
  messages: [{ role: 'user', content: 'Hello' }],
});
console.log(answer);`,
  );
  t.is(
    writePython(chat),
    `import os
from openai import OpenAI

client = OpenAI(
    base_url="https://api.example.com/openai/v1",
    api_key=os.environ["KEY"],
)
answer = client.chat.completions.create(
    model="my-model",
    messages=[{"role": "user", "content": "Hello"}],
)
print(answer)`,
  );
  t.is(exampleOf('listKeys').credential, 'TOKEN');
  t.is(exampleOf('listPlans').credential, 'OPERATOR');
  t.is(exampleOf('mintGuestKey').credential, undefined);
});

test('a route that no official package has is requested with what the language has', (t) => {
  const key = exampleOf('updateKey');
  t.regex(writeNode(key), /^const response = await fetch\(/);
  t.true(writeNode(key).includes("method: 'PATCH'"));
  t.true(writeNode(key).includes('process.env.TOKEN}`'));
  t.true(writePython(key).includes('method="PATCH"'));
  t.true(writePython(key).includes('"Bearer " + os.environ["TOKEN"]'));
  t.true(writeCurl(key).includes(' -X PATCH'));
  t.regex(writePython(exampleOf('retrieveHome')), /^import json\nimport urllib.request\n/);
});

test('values of parameters are encoded in addresses, and not for packages, which encode them', (t) => {
  const model = exampleOf('retrieveModel');
  t.true(writeCurl(model).includes('/v1/models/my%2Fchat'));
  t.true(writeNode(model).includes("client.models.retrieve('my/chat')"));
  t.true(writePython(model).includes('client.models.retrieve("my/chat")'));
  t.true(writeCurl(exampleOf('retrieveAccount')).includes('/admin/accounts/user%3Aalice'));
});

test('a text with quotes is the same text in every language', (t) => {
  const text = `it's "a" \\ line\nand ✓`;
  const example: RequestExample = {
    ...{ id: 'other', method: 'POST', baseUrl, path: '/x', parameters: [] },
    body: { text, "a'b": [true, false, null, 1.5] },
  };
  t.true(writeCurl(example).includes(`"it'\\''s \\"a\\" \\\\ line\\nand ✓"`));
  t.true(writeNode(example).includes(`text: 'it\\'s "a" \\\\ line\\nand ✓'`));
  t.true(writeNode(example).includes(`'a\\'b': [true, false, null, 1.5]`));
  t.true(writePython(example).includes(`"text": ${JSON.stringify(text)}`));
  t.true(writePython(example).includes('[True, False, None, 1.5]'));
});

test('JSON is printed on one line if it fits, and is the same value', (t) => {
  t.is(printJson({ a: [1, 2], b: {} }), '{"a": [1, 2], "b": {}}');
  const value = { a: 'x'.repeat(60), b: [{ c: null }], d: [] };
  t.deepEqual(JSON.parse(printJson(value)), value);
  t.true(printJson(value).includes('\n  "b": [{"c": null}],\n'));
});

test('every method of a package belongs to an operation', (t) => {
  const ids = operations.map(({ operationId }) => operationId);
  for (const id of Object.keys(sdkCalls)) t.true(ids.includes(id), id);
});
