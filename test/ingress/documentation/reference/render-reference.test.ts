import test from 'ava';
import { escapeHtml } from '../../../../ingress/documentation/code-block.ts';
import { readDocument } from '../../../../ingress/documentation/reference/read-document.ts';
import { renderReference } from '../../../../ingress/documentation/reference/render-reference.ts';
import { createProse } from '../../../../ingress/documentation/render-markdown.ts';
import { smallDocument } from '../../../support/documentation/small-document.ts';
import { openApiDocument } from '../../../support/documented/schema-faults.ts';

const parts = {
  href: '/docs/reference',
  errorsHref: '/docs/errors',
  prose: createProse((name) => `/docs/${name}`),
  examples: { baseUrl: 'https://api.example.com', models: { chat: 'small-chat' }, modelAt: () => undefined },
};
const pagesOf = (document: object) =>
  new Map(renderReference({ document, ...parts }).map((page) => [page.name, page] as const));
const pages = pagesOf(openApiDocument);
const all = [...pages.values()].map(({ html }) => html).join('\n');
const { groups } = readDocument(openApiDocument);
const htmlOf = (name: string, of = pages) => of.get(name)?.html ?? '';
const idsIn = (html: string) => [...html.matchAll(/ id="([^"]+)"/g)].map(([, id = '']) => id);

test('each group has a page with all of its operations, and the overview has a list of all of them', (t) => {
  t.deepEqual([...pages.keys()], ['reference', ...groups.map(({ slug }) => `reference/${slug}`)]);
  t.true(groups.length >= 9);
  for (const { slug, name, operations } of groups) {
    const { html, sections, title } = pages.get(`reference/${slug}`) ?? { html: '', sections: [], title: '' };
    t.is(title, name);
    t.is(sections.length, operations.length);
    for (const { method, path, summary } of operations) {
      const shown = `${method}</span> <code>${path}</code>`;
      t.true(html.includes(`<p class="route"><span class="method ${method.toLowerCase()}">${shown}`), path);
      t.true(html.includes(`${escapeHtml(summary)}</a></h2>`), summary);
      t.true(htmlOf('reference').includes(shown), path);
    }
  }
  for (const [name, { html }] of pages) t.is(new Set(idsIn(html)).size, idsIn(html).length, name);
});

test('links to parts of the former page lead to the row of the same operation or group', (t) => {
  const ids = new Set(idsIn(htmlOf('reference')));
  const former = [
    'inference',
    'create-a-chat-completion',
    'keys',
    'rotate-a-key',
    'batches',
    'list-the-plans',
    'schemas',
  ];
  for (const id of former) t.true(ids.has(id), id);
  const links = [...htmlOf('reference').matchAll(/href="\/docs\/(reference\/[a-z-]+)#([^"]+)"/g)];
  t.true(links.length > 50);
  for (const [, page = '', id = ''] of links) {
    t.true(idsIn(htmlOf(page)).includes(id), `${page}#${id}`);
    t.true(ids.has(id), id);
  }
});

test('every schema and each of its fields is on a page, except those of errors, which have their own page', (t) => {
  const { components } = openApiDocument as { components: { schemas: Record<string, { properties?: object }> } };
  const missing = Object.entries(components.schemas).flatMap(([name, { properties = {} }]) => {
    if (all.includes(`/docs/errors#${name}`)) return [];
    return Object.keys(properties).filter((field) => !all.includes(`<dt><code>${field}</code>`));
  });
  t.deepEqual(missing, []);
  for (const name of ['ChatCompletionRequest', 'ChatCompletionChunk', 'StreamError', 'NestedError', 'MessageError']) {
    t.true(all.includes(`<code class="schema">${name}</code>`), name);
  }
  const isNamed = (name: string) => all.includes(`>${name}</code>`) || all.includes(`>${name}</summary>`);
  for (const name of ['Batch', 'UsageReport', 'NewKey']) t.true(isNamed(name), name);
});

test('a field has its type, whether it is required, its bounds, its default and its own fields', (t) => {
  const html = htmlOf('reference/inference');
  t.true(
    html.includes('<dt><code>model</code> <span class="type">string</span> <span class="required">required</span>'),
  );
  t.regex(html, /<code>messages<\/code> <span class="type">array of objects<\/span> <span class="required">/);
  t.regex(html, /<summary>Fields of <code>messages<\/code><\/summary><dl class="fields">.*?<code>role<\/code>/);
  t.regex(htmlOf('reference/batches'), /<code>limit<\/code>[^\n]*?1 to 100\. Default: <code>20<\/code>/);
});

test('errors are listed by status with links to their explanations, also the types of limits', (t) => {
  const linked = new Set([...all.matchAll(/href="\/docs\/errors#(\w+)"/g)].map(([, code]) => code));
  for (const code of ['NO_AUTH', 'rate_limit_exceeded', 'requests_limit', 'guest_mints', 'DEADLINE_EXCEEDED']) {
    t.true(linked.has(code), code);
  }
  t.regex(
    htmlOf('reference/keys'),
    /<span class="status">429<\/span> <span><a href="\/docs\/errors#rate_limit_exceeded">/,
  );
});

test('the examples of an operation are in three languages, with an example of the answer', (t) => {
  for (const { slug, operations } of groups) {
    const html = htmlOf(`reference/${slug}`);
    for (const name of ['curl', 'Node', 'Python']) {
      t.is(html.split(`<p class="variant-name">${name}</p>`).length - 1, operations.length, `${slug}: ${name}`);
    }
  }
  t.true(htmlOf('reference/inference').includes('aria-label="Answer, text/event-stream: Create a chat completion"'));
});

test('code in descriptions is shown unchanged', (t) => {
  t.true(all.includes('<code>data: &lt;ChatCompletionChunk&gt;</code>'));
  t.true(all.includes('<code>[DONE]</code>'));
});

test('what the search finds of an operation has its path, its fields and its errors', (t) => {
  const sections = pages.get('reference/inference')?.sections ?? [];
  const { content = '', id } = sections.find(({ text }) => text === 'Create a chat completion') ?? {};
  t.is(id, 'create-a-chat-completion');
  for (const word of ['POST /v1/chat/completions', 'max_completion_tokens', 'finish_reason', 'quota_exceeded']) {
    t.true(content.includes(word), word);
  }
});

test('a document with other parts is shown, and none of its texts can put markup on a page', (t) => {
  const small = pagesOf(smallDocument);
  t.deepEqual([...small.keys()], ['reference', 'reference/keys', 'reference/inference', 'reference/other']);
  t.true(htmlOf('reference/inference', small).includes('Complete, or as a stream.'));
  t.true(htmlOf('reference/other', small).includes('GET /openapi.json'), 'an operation without a summary has its path');
  for (const [name, { html }] of small) t.notRegex(html, /<script|onerror=/, name);
  const hostile = JSON.parse(
    JSON.stringify(smallDocument).replaceAll(/"(string|Hello|What they ask)"/g, '"<b>\\"x</b>"'),
  );
  for (const [, { html }] of pagesOf(hostile)) t.notRegex(html, /<b>/);
});

test('a schema that contains itself ends', (t) => {
  const document = structuredClone(smallDocument) as { components: { schemas: Record<string, object> } };
  const self = { $ref: '#/components/schemas/ChatRequest' };
  document.components.schemas.ChatRequest = {
    type: 'object',
    properties: { again: self, all: { type: 'array', items: self } },
  };
  t.true(htmlOf('reference/inference', pagesOf(document)).includes('<code>again</code>'));
});

test('a document that is not OpenAPI is an error', (t) => {
  t.throws(() => pagesOf({ openapi: 5 }));
});
