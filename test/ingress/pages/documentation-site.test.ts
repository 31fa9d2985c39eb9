import test from 'ava';
import { pageNames } from '../../../ingress/documentation/page-list.ts';
import { exampleModels } from '../../../ingress/documentation/reference/request-example.ts';
import { makeSite, type SiteRequest } from '../../../ingress/pages/documentation-site.ts';
import { batchPlan } from '../../support/batch-plan.ts';
import { smallDocument } from '../../support/documentation/small-document.ts';
import { openApiDocument } from '../../support/documented/schema-faults.ts';

const links = {
  baseUrl: 'https://api.example.com/',
  authUrl: 'https://auth.example.com',
  consoleUrl: 'https://console.example.com/?a=1&b="2"',
  topupUrl: 'https://console.example.com/#top-up',
  docsUrl: 'https://docs.example.com/help',
};
const models = exampleModels(batchPlan());
const make = (more: object = {}, wishes: Partial<SiteRequest> = {}) =>
  makeSite({
    links: { ...links, ...more },
    product: { name: 'Inference service' },
    models,
    document: smallDocument,
    ...wishes,
  });
const site = make();
const textOf = (name: string, of = site) => String(of.pages.get(name)?.bytes);
const hrefsIn = (html: string) => [...html.matchAll(/ (?:href|src)="([^"]+)"/g)].map(([, href = '']) => href);

test('pages link to the previous and the next one, in order, and to nothing else of this host', (t) => {
  const html = textOf('errors');
  const hrefs = hrefsIn(html);
  t.deepEqual(
    hrefs.filter((href) => href.startsWith('/') && !/^\/help(\/|$)/.test(href)),
    [],
  );
  t.true(html.includes('<a rel="prev" href="/help/streaming">'));
  t.true(html.includes('<a rel="next" href="/help/retry-safely">'));
  t.true(hrefs.includes('https://console.example.com/?a=1&amp;b=&quot;2&quot;'));
  t.true(hrefs.includes('https://api.example.com/openapi.json'));
  const atTop = make({ docsUrl: 'https://docs.example.com' });
  t.true(textOf('', atTop).includes('href="/errors"'));
  t.true(textOf('', atTop).includes('<a class="name" href="/">'));
});

test('every page loads assets that exist, and the search index is one of them', (t) => {
  const names = [...site.assets.keys()].map((name) => `/help/assets/${name}`);
  for (const [page] of site.pages) {
    const html = textOf(page);
    const loaded = hrefsIn(html).filter((href) => href.includes('/assets/'));
    t.true(loaded.length > 8, page);
    for (const href of loaded) t.true(names.includes(href), href);
    const [, index = ''] = /data-index="([^"]+)"/.exec(html) ?? [];
    t.true(names.includes(index) && index.endsWith('.json'), page);
    t.notRegex(html, /<style| style=| on\w+=|<script(?! type="module" src=)/);
  }
});

test('the navigation has the pages for each kind of reader in groups, with the reference among them', (t) => {
  const html = textOf('internals/decisions');
  const [, navigation = ''] = html.split('<nav class="pages wide" aria-label="Pages">');
  const [own = ''] = navigation.split('</nav>');
  const groups = [
    ...own.matchAll(
      /<details class="group"( open)?><summary>(.*?)<\/summary><ul class="links" aria-label="(.*?)">(.*?)<\/ul>/g,
    ),
  ];
  t.deepEqual(
    groups.map(([, open, title, label]) => [title, label, open !== undefined]),
    [
      ['Start', 'Start', true],
      ['Endpoints', 'Endpoints', false],
      ['Guides', 'Guides', false],
      ['Batches and events', 'Batches and events', false],
      ['API reference', 'API reference', false],
      ['Operators', 'Operators', false],
      ['Runbooks', 'Runbooks', false],
      ['Internals', 'Internals', true],
    ],
  );
  t.true(
    groups[4]?.[4]?.startsWith('<li><a href="/help/reference">Overview</a></li><li><a href="/help/reference/keys">'),
  );
  t.true(groups[7]?.[4]?.includes('<a href="/help/internals/decisions" aria-current="page">Decisions</a>'));
  t.is(own.split('<li>').length - 1, site.pages.size - 1, 'every page is there once');
  t.true(html.includes('<link rel="canonical" href="https://docs.example.com/help/internals/decisions">'));
  t.true(html.includes('href="/help/internals/glossary"'), 'links of a page are relative to its folder');
});

test('the pages of the reference have a list of their operations, and are among the others', (t) => {
  const full = make({}, { document: openApiDocument });
  t.is(full.pages.size, 1 + pageNames.length + 10);
  const html = textOf('reference/batches', full);
  t.true(html.includes('<div class="columns has-sides">'));
  t.true(html.includes('<a rel="prev" href="/help/reference/files">'));
  t.true(html.includes('<a href="#create-a-batch">Create a batch</a>'));
  t.true(html.includes('https://api.example.com/v1/batches'));
});

test('the names of assets do not depend on the models in examples, so pages that are open keep working', (t) => {
  const others = make({}, { models: { ...models, chat: 'another-chat', embeddings: 'another-embed' } });
  t.true(textOf('quick-start', others).includes('another-chat'));
  t.deepEqual([...others.assets.keys()], [...site.assets.keys()]);
});

test('a document that is not OpenAPI is an error', (t) => {
  t.throws(() => make({}, { document: { openapi: 5 } }));
});
