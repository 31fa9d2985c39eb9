import test from 'ava';
import { arrangeReference } from '../../../ingress/documentation/reference/arrange-reference.ts';
import { documentSchema, operationsOf } from '../../../ingress/documentation/reference/openapi-document.ts';
import { prepareDocument } from '../../../ingress/documentation/reference/prepare-document.ts';
import { createRenderReference } from '../../../ingress/documentation/reference/render-reference.ts';
import { createOpenApiDocument } from '../../../ingress/openapi/document.ts';
import { serveDocumentation } from '../../support/documentation/serve-documentation.ts';
import { smallDocument } from '../../support/documentation/small-document.ts';

let site: Awaited<ReturnType<typeof serveDocumentation>>;
let html: string;

test.before(async () => {
  site = await serveDocumentation({ renderReference: createRenderReference({ document }) });
  html = await (await fetch(`${site.url}/docs/reference`)).text();
});

test.after.always(() => site?.[Symbol.asyncDispose]());

const addresses = { baseUrl: 'https://api.example.com', docsUrl: 'https://d.example', authUrl: 'https://a.example' };
const document = createOpenApiDocument(addresses);

test('the reference shows every operation of the document under its tag, with its path', async (t) => {
  const { tags } = documentSchema.parse(document);
  for (const { name } of tags) t.true(html.includes(`>${name}</a></h2>`), name);
  const operations = operationsOf(documentSchema.parse(document));
  t.true(operations.length > 20);
  for (const { method, path } of operations) {
    t.true(html.includes(`<code>${method.toUpperCase()} ${path}</code>`), `${method} ${path}`);
  }
  const ids = [...html.matchAll(/ id="([^"]+)"/g)].map(([, id]) => id);
  t.is(new Set(ids).size, ids.length, 'each id is unique');
});

test('every schema is on the page: under an operation, in its table of errors, or at the end', async (t) => {
  const names = Object.keys(schemasOf(document));
  t.true(names.length > 40);
  const isShown = (name: string) =>
    [`schema: <code>${name}</code>`, `href="/docs/errors#${name}"`, `<h3 id="${name.toLowerCase()}">`].some((mark) =>
      html.includes(mark),
    );
  t.deepEqual(
    names.filter((name) => !isShown(name)),
    [],
  );
  const [, atTheEnd = ''] = html.split('<h2 id="schemas">');
  for (const field of ['delta', 'StreamError', 'UPSTREAM_INTERRUPTED']) t.true(atTheEnd.includes(field), field);
});

function schemasOf(document: object): object {
  const { components } = document as { components: { schemas: object } }; // every OpenAPI document of the service has it
  return components.schemas;
}

test('code is shown unchanged', async (t) => {
  const spans = [...html.matchAll(/(?<!>)<code>(.*?)<\/code>/gs)].map(([, code = '']) => code);
  t.true(spans.includes('[DONE]'));
  t.deepEqual(
    spans.filter((code) => /\\[!-/:-@[-`{-~]/.test(code)),
    [],
  );
});

test('errors are a table with links to their remedies', async (t) => {
  const errors = await (await fetch(`${site.url}/docs/errors`)).text();
  const linked = [...html.matchAll(/href="\/docs\/errors#(\w+)"/g)].map(([, code]) => code);
  t.true(linked.length > 100);
  for (const code of new Set(linked)) t.true(errors.includes(`id="${code}"`), code);
  t.true(html.includes('<td>429</td><td><a href="/docs/errors#rate_limit_exceeded">'));
});

test('no description of the document can put a script on the page', async (t) => {
  await using hostile = await serveDocumentation();
  const text = await (await fetch(`${hostile.url}/docs/reference`)).text();
  t.true(text.includes('Complete, or as a stream.'));
  t.notRegex(text, /<script/);
});

test('common parts of operations are not repeated, and schemas are shortened without loss', (t) => {
  const prepared = JSON.stringify(prepareDocument(smallDocument));
  for (const gone of ['servers', '"security"', 'x-client-request-id', 'x-request-id', '"429"']) {
    t.false(prepared.includes(gone), gone);
  }
  const shortened = (schema: object) => (prepareDocument({ schema }) as { schema: object }).schema;
  const nothing = { type: 'null' };
  t.deepEqual(shortened({ anyOf: [{ type: 'integer', minimum: 1 }, nothing], description: 'x' }), {
    type: ['integer', 'null'],
    minimum: 1,
    description: 'x',
  });
  const constant = { anyOf: [{ type: 'string', const: 'a' }, nothing] };
  t.deepEqual(shortened(constant), constant);
  const choice = { anyOf: [{ anyOf: [{ type: 'string' }, { type: 'array' }] }, nothing] };
  t.deepEqual(shortened(choice), { anyOf: [{ type: 'string' }, { type: 'array' }, nothing] });
  t.deepEqual(shortened({ additionalProperties: false, example: { additionalProperties: false } }), {
    example: { additionalProperties: false },
  });
});

test('operations that were not rendered cause an error, and are not omitted silently', (t) => {
  const small = documentSchema.parse(smallDocument);
  t.throws(() => arrangeReference('# T\n\n## Operations\n\n### One\n\n- **Method:** `GET`\n', small), {
    message: '1 of 4 operations were rendered',
  });
});
