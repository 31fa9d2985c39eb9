import test from 'ava';
import { createDocumentation } from '../../../ingress/documentation/documentation.ts';
import { exampleModels } from '../../../ingress/documentation/example-model.ts';
import { createRenderReference } from '../../../ingress/documentation/reference/render-reference.ts';
import { createStaticContent } from '../../../ingress/pages/static-content.ts';
import { temporarilyUnavailable } from '../../../shared/errors.ts';
import { batchPlan } from '../../support/batch-plan.ts';
import { serveDocumentation } from '../../support/documentation/serve-documentation.ts';

const links = {
  baseUrl: 'https://api.example.com/',
  authUrl: 'https://auth.example.com',
  consoleUrl: 'https://console.example.com/?a=1&b="2"',
  topupUrl: 'https://console.example.com/#top-up',
  docsUrl: 'https://docs.example.com/help',
};
const renderReference = () => Promise.reject(temporarilyUnavailable());
const create = (more: object = {}) =>
  createDocumentation({ links: { ...links, ...more }, models: exampleModels(batchPlan()), renderReference });
const textOf = async (page: ReturnType<ReturnType<typeof create>['page']>) => String((await page)?.bytes);

test('a page is HTML with a language, a title, landmarks and no script, and is revalidated each time', async (t) => {
  await using site = await serveDocumentation();
  const answer = await fetch(`${site.url}/docs/errors`);
  const html = await answer.text();
  t.is(answer.status, 200);
  t.is(answer.headers.get('content-type'), 'text/html; charset=utf-8');
  t.is(answer.headers.get('cache-control'), 'no-cache');
  const policy = answer.headers.get('content-security-policy') ?? '';
  for (const directive of ["default-src 'none'", "script-src 'none'", "connect-src 'none'", "style-src 'self'"]) {
    t.true(policy.split('; ').includes(directive), policy);
  }
  t.regex(html, /^<!doctype html>\n<html lang="en">/);
  t.true(html.includes('<title>Errors – Inference service</title>'));
  for (const part of [
    '<header',
    '<main id="content"',
    '<nav class="pages wide" aria-label="Pages"',
    'href="#content"',
  ]) {
    t.true(html.includes(part), part);
  }
  t.notRegex(html, /<script|<style| style=| on\w+=/);
  const etag = answer.headers.get('etag') ?? '';
  const again = await fetch(`${site.url}/docs/errors`, {
    // Without the second header, fetch requests a response that bypasses all caches.
    headers: { 'if-none-match': etag, 'cache-control': 'max-age=0' },
  });
  t.is(again.status, 304);
  const small = await fetch(`${site.url}/docs/errors`, { headers: { 'accept-encoding': 'br' } });
  t.is(small.headers.get('content-encoding'), 'br');
  t.is(await small.text(), html);
});

test('the assets of a page exist, and are never revalidated', async (t) => {
  await using site = await serveDocumentation();
  const html = await (await fetch(`${site.url}/docs`)).text();
  const loaded = [...html.matchAll(/<link rel="(?:stylesheet|icon)" href="([^"]+)"/g)].map(([, href = '']) => href);
  t.is(loaded.length, 3);
  for (const href of loaded) {
    const answer = await fetch(new URL(href, site.url));
    t.is(answer.status, 200, href);
    t.is(answer.headers.get('cache-control'), 'public, max-age=31536000, immutable', href);
    t.regex(answer.headers.get('content-type') ?? '', /^(text\/css|image\/svg)/, href);
  }
});

test('the first page is at the address of the documentation, with and without a slash at the end', async (t) => {
  await using site = await serveDocumentation();
  const pages = await Promise.all(
    ['/docs', '/docs/', '/docs/quick-start', '/docs/quick-start/'].map(async (path) =>
      (await fetch(site.url + path)).text(),
    ),
  );
  t.is(new Set(pages).size, 1);
  t.true(pages[0]?.includes(`<link rel="canonical" href="${site.url}/docs/quick-start">`));
});

test('every other path is a page with status 404 and links to the existing pages', async (t) => {
  await using site = await serveDocumentation();
  for (const path of [
    'nothing',
    'constructor',
    '__proto__',
    'Errors',
    'errors.md',
    'assets',
    'assets/nothing',
    'errors/x',
    'a/b/c',
    '%zz',
    'nothing/',
  ]) {
    const answer = await fetch(`${site.url}/docs/${path}`);
    t.is(answer.status, 404, path);
    t.is(answer.headers.get('content-type'), 'text/html; charset=utf-8', path);
    t.regex(answer.headers.get('content-security-policy') ?? '', /script-src 'none'/);
    const html = await answer.text();
    t.true(html.includes('<title>Page not found – Inference service</title>'), path);
    t.true(html.includes('href="/docs/quick-start"') && html.includes('href="/docs/limits"'));
    t.notRegex(html, /rel="canonical"|aria-current|class="neighbours"/);
    const again = { 'if-none-match': answer.headers.get('etag') ?? '', 'cache-control': 'max-age=0' };
    t.is(
      (await fetch(`${site.url}/docs/${path}`, { headers: again })).status,
      404,
      'also for a client that has it cached',
    );
  }
  t.is((await fetch(`${site.url}/docs/nothing`, { method: 'POST' })).status, 405);
});

test('pages link to the previous and the next one, in order', async (t) => {
  const documentation = create();
  const html = await textOf(documentation.page('errors'));
  const hrefs = [...html.matchAll(/href="([^"]+)"/g)].map(([, href = '']) => href);
  t.deepEqual(
    hrefs.filter((href) => href.startsWith('/') && !/^\/help(\/|$)/.test(href)),
    [],
  );
  t.true(html.includes('<a rel="prev" href="/help/keys">'));
  t.true(html.includes('<a rel="next" href="/help/retry-safely">'));
  t.true(hrefs.includes('https://console.example.com/?a=1&amp;b=&quot;2&quot;'));
  t.true(hrefs.includes('https://api.example.com/openapi.json'));
  for (const [name] of documentation.assets) t.true(hrefs.includes(`/help/assets/${name}`));
  const atTop = await textOf(create({ docsUrl: 'https://docs.example.com' }).page(''));
  t.true(atTop.includes('href="/errors#NO_AUTH"') || atTop.includes('href="/errors"'));
  t.true(atTop.includes('<a class="name" href="/">'));
});

test('the navigation has a list of pages for each group, and pages about the internals are the last', async (t) => {
  const html = await textOf(create().page('internals/decisions'));
  const [, navigation = ''] = html.split('<nav class="pages wide" aria-label="Pages">');
  const groups = [
    ...navigation.matchAll(/<p class="list-title">(.*?)<\/p><ul class="links" aria-label="(.*?)">(.*?)<\/ul>/g),
  ];
  t.deepEqual(
    groups.slice(0, 3).map(([, title, label]) => [title, label]),
    [
      ['Guides', 'Guides'],
      ['Endpoints', 'Endpoints'],
      ['Internals', 'Internals'],
    ],
  );
  t.regex(groups[0]?.[3] ?? '', /<a href="\/help\/reference">API reference<\/a><\/li>$/);
  t.regex(groups[2]?.[3] ?? '', /^<li><a href="\/help\/internals\/architecture">Architecture<\/a><\/li>/);
  t.true(groups[2]?.[3]?.includes('<a href="/help/internals/decisions" aria-current="page">Decisions</a>'));
  t.true(html.includes('<link rel="canonical" href="https://docs.example.com/help/internals/decisions">'));
  t.true(html.includes('<a rel="prev" href="/help/internals/contract">'));
  t.true(html.includes('href="/help/internals/glossary"'), 'links of a page are relative to its folder');
});

test('a page about the internals is served below its folder, and the folder has no page', async (t) => {
  await using site = await serveDocumentation();
  for (const path of ['internals/contract', 'internals/contract/']) {
    const answer = await fetch(`${site.url}/docs/${path}`);
    t.is(answer.status, 200, path);
    t.true((await answer.text()).includes('<title>Contract – Inference service</title>'), path);
  }
  for (const path of ['internals', 'internals/', 'contract', 'internals/errors']) {
    t.is((await fetch(`${site.url}/docs/${path}`)).status, 404, path);
  }
});

test('examples use a model that a new account may use', (t) => {
  const plan = batchPlan();
  t.like(exampleModels(plan), { chat: 'small-chat', embeddings: 'embeddings-model' });
  const embeddings = { endpoints: ['embeddings'], backends: [], tier: 'premium', pool: 'default' };
  t.like(exampleModels({ ...plan, models: { other: embeddings, ...plan.models } }), {
    chat: 'small-chat',
    embeddings: 'other',
  });
  const { 'small-chat': small, ...others } = plan.models;
  t.is(exampleModels({ ...plan, models: { ...others, last: small ?? never() } }).chat, 'medium-chat');
  t.is(exampleModels({ ...plan, models: {} }).chat, 'chat-model');
});

function never(): never {
  throw new Error('the plan of these tests has that model');
}

test('the reference is made on demand, once for all requests; after a failure the next try is five seconds later, not earlier', async (t) => {
  let asked = 0;
  const content = createStaticContent('<p>made</p>', 'text/html');
  const make = () => (asked++ === 0 ? Promise.reject(temporarilyUnavailable()) : Promise.resolve(content));
  let now = 0;
  const documentation = createDocumentation({
    links,
    models: exampleModels(batchPlan()),
    renderReference: make,
    now: () => now,
  });
  t.is(asked, 0);
  for (now of [0, 4_999]) {
    await t.throwsAsync(async () => documentation.page('reference'), { message: /not available/ });
    t.is(asked, 1);
  }
  now = 5_000;
  const all = await Promise.all([documentation.page('reference'), documentation.page('reference')]);
  t.deepEqual(all, [content, content]);
  now = 1_000_000;
  t.is(await documentation.page('reference'), content);
  t.is(asked, 2);
});

test('a document that cannot be rendered is 503, and the next page is served', async (t) => {
  await using site = await serveDocumentation({ renderReference: createRenderReference({ document: { openapi: 5 } }) });
  const answer = await fetch(`${site.url}/docs/reference`);
  t.is(answer.status, 503);
  t.is(((await answer.json()) as { code: string }).code, 'SERVICE_UNAVAILABLE');
  t.is(answer.headers.get('retry-after'), '5');
  t.is((await fetch(`${site.url}/docs/errors`)).status, 200);
});
