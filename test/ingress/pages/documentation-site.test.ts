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

test('the navigation has the pages for one kind of reader in groups, and links to the others', (t) => {
  const groups = groupsOn('streaming');
  t.deepEqual(
    groups.map(({ title, label, isOpen }) => [title, label, isOpen]),
    [
      ['Start', 'Start', true],
      ['Endpoints', 'Endpoints', false],
      ['Guides', 'Guides', true],
      ['Batches and events', 'Batches and events', false],
      ['API reference', 'API reference', false],
    ],
  );
  t.true(
    groups[4]?.list.startsWith('<li><a href="/help/reference">Overview</a></li><li><a href="/help/reference/keys">'),
  );
  t.false(navigationOf('limits').includes('runbooks/'));
  t.deepEqual(
    groupsOn('runbooks/model-down').map(({ title, isOpen }) => [title, isOpen]),
    [
      ['Set up', true],
      ['Operate', false],
      ['Compare', false],
      ['Runbooks', true],
    ],
  );
  t.deepEqual(
    groupsOn('internals/decisions').map(({ title }) => title),
    ['Internals'],
  );
  for (const page of ['limits', 'monitoring', 'internals/decisions']) {
    for (const [title, href] of [
      ['Use the API', '/help/start'],
      ['Run and operate it', '/help/operating'],
      ['Internals', '/help/internals/architecture'],
    ]) {
      t.regex(navigationOf(page), new RegExp(`<li><a href="${href}"( aria-current="true")?>${title}</a></li>`), page);
    }
    t.is(navigationOf(page).split('aria-current="true"').length, 2, 'one of them is marked');
  }
  const listed = ['limits', 'monitoring', 'internals/decisions'].flatMap((page) =>
    groupsOn(page).flatMap(({ list }) => hrefsIn(list)),
  );
  t.is(new Set(listed).size, listed.length);
  t.is(listed.length, site.pages.size - 1, 'every page is there once');
  const html = textOf('internals/decisions');
  t.true(html.includes('<a href="/help/internals/decisions" aria-current="page">Decisions</a>'));
  t.true(html.includes('<link rel="canonical" href="https://docs.example.com/help/internals/decisions">'));
  t.true(html.includes('href="/help/internals/glossary"'), 'links of a page are relative to its folder');
});

const navigationOf = (page: string) => textOf(page).split('aria-label="Pages">')[1]?.split('</nav>')[0] ?? '';
const groupsOn = (page: string) =>
  [
    ...navigationOf(page).matchAll(
      /<details class="group"( open)?><summary>(.*?)<\/summary><ul class="links" aria-label="(.*?)">(.*?)<\/ul>/g,
    ),
  ].map(([, open, title = '', label, list = '']) => ({ title, label, list, isOpen: open !== undefined }));

test('the first page has a card for each kind of reader, and a drawing with a description', (t) => {
  const html = textOf('');
  t.is(html, textOf('start'));
  const [cards = ''] = html.split('<main id="content" class="first"')[1]?.split('</ul>') ?? [];
  for (const name of ['quick-start', 'move-from-openai', 'operating', 'monitoring'])
    t.true(cards.includes(`<li><a href="/help/${name}"><strong>`), name);
  t.regex(html, /<span class="drawing" role="img" tabindex="0" aria-label="Your program sends [^"]+"><svg /);
  t.false(textOf('limits').includes('class="first"'));
});

test('each page is also Markdown with the addresses of the service, and links to it', (t) => {
  t.deepEqual(
    [...site.texts.keys()],
    [...site.pages.keys()]
      .slice(1)
      .map((name) => `${name}.md`)
      .concat('llms.txt'),
  );
  for (const [name, { type, bytes }] of site.texts) {
    const text = String(bytes);
    if (name === 'llms.txt') continue;
    t.is(type, 'text/markdown; charset=utf-8');
    t.regex(text, /^# \S/, name);
    t.notRegex(text, /\{\{|^<!--|^```\w+ ./m, name);
    for (const [, link = ''] of text.matchAll(/\]\(([^)]+?\.md)(?:#[^)]*)?\)/g)) {
      t.true(site.texts.has(link.replace('https://docs.example.com/help/', '')), `${name}: ${link}`);
    }
    const page = name.replace('.md', '');
    t.true(textOf(page).includes(`<a href="/help/${name}" class="as-markdown" type="text/markdown">`), name);
  }
  const start = String(site.texts.get('start.md')?.bytes);
  t.true(start.includes('curl -s https://api.example.com/v1/chat/completions'));
  t.true(start.includes('*Your program sends '), 'a drawing is its description');
  const inference = String(site.texts.get('reference/inference.md')?.bytes);
  for (const part of ['## Answer a conversation', '`POST /v1/chat/completions`', '- `model` (string, required)'])
    t.true(inference.includes(part), part);
});

test('llms.txt names each page once, with what it is about, and what can be skipped at its end', (t) => {
  const text = String(site.texts.get('llms.txt')?.bytes);
  t.regex(text, /^# Inference service\n\n> .+\n\n## Use the API\n\n- \[/);
  t.deepEqual(
    [...text.matchAll(/^## (.*)$/gm)].map(([, title]) => title),
    ['Use the API', 'API reference', 'Run and operate it', 'Optional'],
  );
  const links = [...text.matchAll(/^- \[[^\]]+\]\(https:\/\/docs\.example\.com\/help\/(\S+\.md)\)(?:: \S.*)?$/gm)];
  t.deepEqual(links.map(([, name]) => name).toSorted(), [...site.texts.keys()].slice(0, -1).toSorted());
  t.true(text.indexOf('runbooks/') > text.indexOf('## Optional'));
});

test('the pages of the reference have a list of their operations, and are among the others', (t) => {
  const full = make({}, { document: openApiDocument });
  t.is(full.pages.size, 1 + pageNames.length + 10);
  const html = textOf('reference/batches', full);
  t.true(html.includes('<div class="columns has-sides">'));
  t.true(html.includes('<a rel="prev" href="/help/reference/files">'));
  t.true(html.includes('<a href="#create-a-batch">Create a batch</a>'));
  t.true(html.includes('https://api.example.com/v1/batches'));
  const groups = [...full.texts].filter(([name]) => name.startsWith('reference/'));
  t.is(groups.length, 9);
  for (const [name, { bytes }] of groups) {
    const shown = [...textOf(name.replace('.md', ''), full).matchAll(/<section class="operation"/g)];
    t.is(String(bytes).match(/^## /gm)?.length, shown.length, name);
  }
});

test('the names of assets do not depend on the models in examples, so pages that are open keep working', (t) => {
  const others = make({}, { models: { ...models, chat: 'another-chat', embeddings: 'another-embed' } });
  t.true(textOf('quick-start', others).includes('another-chat'));
  t.deepEqual([...others.assets.keys()], [...site.assets.keys()]);
});

test('a document that is not OpenAPI is an error', (t) => {
  t.throws(() => make({}, { document: { openapi: 5 } }));
});
