import test from 'ava';
import { exampleModels } from '../../../ingress/documentation/reference/request-example.ts';
import type { Site } from '../../../ingress/pages/documentation-site.ts';
import { createConsole, createDocumentation, followExamples } from '../../../ingress/pages/made-pages.ts';
import { createStaticContent } from '../../../ingress/pages/static-content.ts';
import type { AppContext } from '../../../ingress/request-state.ts';
import { batchPlan } from '../../support/batch-plan.ts';
import { serveDocumentation } from '../../support/documentation/serve-documentation.ts';

let site: Awaited<ReturnType<typeof serveDocumentation>>;
test.before(async () => {
  site = await serveDocumentation();
});
test.after.always(() => site?.[Symbol.asyncDispose]());

test('a page is HTML with a language, a title and landmarks, runs only its own script, and is revalidated each time', async (t) => {
  const answer = await fetch(`${site.url}/docs/errors`);
  const html = await answer.text();
  t.is(answer.status, 200);
  t.is(answer.headers.get('content-type'), 'text/html; charset=utf-8');
  t.is(answer.headers.get('cache-control'), 'no-cache');
  const policy = answer.headers.get('content-security-policy') ?? '';
  for (const directive of [
    "default-src 'none'",
    "script-src 'self'",
    "connect-src 'self'",
    "style-src 'self'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
  ]) {
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
  const html = await (await fetch(`${site.url}/docs`)).text();
  const loaded = [...html.matchAll(/(?:href|src|data-index)="(\/docs\/assets\/[^"]+)"/g)].map(([, href = '']) => href);
  t.true(loaded.length > 10);
  for (const href of loaded) {
    const answer = await fetch(new URL(href, site.url));
    t.is(answer.status, 200, href);
    t.is(answer.headers.get('cache-control'), 'public, max-age=31536000, immutable', href);
    t.regex(answer.headers.get('content-type') ?? '', /^(text\/(css|javascript)|image\/svg|application\/json)/, href);
  }
});

test('the first page is at the address of the documentation, with and without a slash at the end', async (t) => {
  const pages = await Promise.all(
    ['/docs', '/docs/', '/docs/start', '/docs/start/'].map(async (path) => (await fetch(site.url + path)).text()),
  );
  t.is(new Set(pages).size, 1);
  t.true(pages[0]?.includes(`<link rel="canonical" href="${site.url}/docs/start">`));
});

test('a page as Markdown and the list of pages are texts, the list also at the top of the host', async (t) => {
  for (const [path, type] of [
    ['/docs/errors.md', 'text/markdown'],
    ['/docs/internals/contract.md', 'text/markdown'],
    ['/docs/reference/keys.md', 'text/markdown'],
    ['/docs/llms.txt', 'text/plain'],
    ['/llms.txt', 'text/plain'],
  ] as const) {
    const answer = await fetch(site.url + path);
    t.is(answer.status, 200, path);
    t.is(answer.headers.get('content-type'), `${type}; charset=utf-8`, path);
    t.true((await answer.text()).startsWith('# '), path);
  }
  const html = await (await fetch(`${site.url}/docs/errors`)).text();
  t.true(html.includes('href="/docs/errors.md"'));
});

test('every other path is a page with status 404 and links to the existing pages', async (t) => {
  for (const path of [
    'nothing',
    'constructor',
    '__proto__',
    'Errors',
    'nothing.md',
    'llms.txt/x',
    'assets',
    'assets/nothing',
    'errors/x',
    'reference/nothing',
    'a/b/c',
    '%zz',
    'nothing/',
  ]) {
    const answer = await fetch(`${site.url}/docs/${path}`);
    t.is(answer.status, 404, path);
    t.is(answer.headers.get('content-type'), 'text/html; charset=utf-8', path);
    t.regex(answer.headers.get('content-security-policy') ?? '', /script-src 'self'/);
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

test('a page below a folder is served, with and without a slash at the end, and the folder has no page', async (t) => {
  for (const path of ['internals/contract', 'internals/contract/', 'reference/keys', 'reference/keys/', 'reference']) {
    t.is((await fetch(`${site.url}/docs/${path}`)).status, 200, path);
  }
  for (const path of ['internals', 'internals/', 'contract', 'internals/errors', 'endpoints']) {
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

test('the documentation is made again when the models in examples change, and only then', async (t) => {
  let plan = batchPlan();
  const made: (string | undefined)[] = [];
  const content = createStaticContent('', 'text/html');
  const documentation = followExamples({
    currentPlanFile: () => plan,
    create(models) {
      made.push(models.chat);
      const site: Site = {
        pages: new Map([['model', content]]),
        missing: content,
        texts: new Map(),
        assets: new Map(),
        policy: '',
      };
      return async () => site;
    },
  });
  await documentation();
  plan = { ...plan };
  await documentation();
  t.deepEqual(made, ['small-chat']);
  plan = { ...plan, models: {} };
  await documentation();
  await documentation();
  t.deepEqual(made, ['small-chat', 'chat-model']);
});

test('if it cannot be made, every page and asset is 503, and the next attempt is five seconds later, not earlier', async (t) => {
  await using broken = await serveDocumentation({ document: { openapi: 5 } });
  for (const path of ['errors', 'reference', 'nothing', 'assets/nothing']) {
    const answer = await fetch(`${broken.url}/docs/${path}`);
    t.is(answer.status, 503, path);
    t.is(((await answer.json()) as { code: string }).code, 'SERVICE_UNAVAILABLE');
    t.is(answer.headers.get('retry-after'), '5');
  }
  let now = 0;
  const links = { authUrl: 'https://a.example', consoleUrl: 'https://c.example', topupUrl: 'https://t.example' };
  const request = {
    links: { ...links, baseUrl: 'https://b.example', docsUrl: 'no address' },
    product: { name: 'Inference service' },
    models: {},
    document: {},
  };
  const documentation = createDocumentation(request, () => now);
  const first = await t.throwsAsync(documentation, { message: 'The documentation is not available right now. Retry.' });
  now = 4_999;
  t.is(await t.throwsAsync(documentation), first);
  now = 5_000;
  t.not(await t.throwsAsync(documentation), first);
});

const settings = {
  ...{ baseUrl: 'https://api.example', issuer: 'https://issuer.example' },
  ...{ docsUrl: 'https://api.example/docs', consoleClientId: 'console', consoleUrl: 'no address' },
  ...{ consoleScopes: 'openid', consoleResource: '', product: { name: 'Inference service' } },
};

test('if its files cannot be made, the console answers 503 and does not try again at once', async (t) => {
  const { page, asset } = createConsole(settings, {
    shared: { async share() {}, find: async () => undefined },
    endpointOrigins: () => [],
  });
  const context = {} as AppContext; // both stages fail before they use it
  const expected = { code: 'SERVICE_UNAVAILABLE', message: 'The console is not available right now. Retry.' };
  const first = await t.throwsAsync(async () => page(context), expected);
  t.like(first, { retryAfterMs: 5_000 });
  t.is(await t.throwsAsync(async () => asset(context, 'main.js'), expected), first);
});

test('the policy of the page follows the endpoints of the issuer, and a page with another policy is sent again', async (t) => {
  let origins: string[] = [];
  const { page } = createConsole(
    { ...settings, consoleUrl: 'https://api.example/console' },
    { shared: { async share() {}, find: async () => undefined }, endpointOrigins: () => origins },
  );
  async function load(): Promise<Record<string, string>> {
    const sent: Record<string, string> = {};
    const set = (headers: Record<string, string>) => void Object.assign(sent, headers);
    const parts = { set, vary() {}, fresh: true, state: {} };
    await page(parts as unknown as AppContext); // what the stage uses
    return sent;
  }
  const connect = (sent: Record<string, string>) =>
    /connect-src ([^;]+);/.exec(sent['content-security-policy'] ?? '')?.[1];
  const first = await load();
  t.is(connect(first), "'self' https://issuer.example https://api.example", 'the issuer has not answered yet');
  t.is((await load()).etag, first.etag);
  origins = ['https://token.example', 'https://issuer.example'];
  const second = await load();
  t.is(connect(second), "'self' https://issuer.example https://api.example https://token.example");
  t.not(second.etag, first.etag);
});
