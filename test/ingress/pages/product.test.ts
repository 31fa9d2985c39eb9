import test from 'ava';
import type { Product } from '../../../ingress/console/session/browser.ts';
import { exampleModels } from '../../../ingress/documentation/reference/request-example.ts';
import { makeConsoleFiles } from '../../../ingress/pages/console-files.ts';
import { makeSite } from '../../../ingress/pages/documentation-site.ts';
import { createConsole } from '../../../ingress/pages/made-pages.ts';
import { contentSecurityPolicy } from '../../../ingress/pages/serve-content.ts';
import type { AppContext } from '../../../ingress/request-state.ts';
import { batchPlan } from '../../support/batch-plan.ts';
import { smallDocument } from '../../support/documentation/small-document.ts';

const hostile: Product = {
  name: '</title><script>alert("1")</script>&',
  logoUrl: 'https://images.example.com/logo.svg?a=1&b="2"',
  supportUrl: 'https://help.example.com/?a=1&b="2"',
};
const escaped = '&lt;/title&gt;&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;&amp;';
const addresses = { baseUrl: 'https://api.example', consoleUrl: 'https://api.example/console' };
const links = {
  ...addresses,
  docsUrl: 'https://api.example/docs',
  authUrl: 'https://a.example',
  topupUrl: 'https://t.example',
};
const siteOf = (product: Product) => {
  const site = makeSite({ links, product, models: exampleModels(batchPlan()), document: smallDocument });
  return { ...site, textOf: (name: string) => String(site.pages.get(name)?.bytes) };
};
const imagesIn = (policy: string) => /img-src ([^;]+);/.exec(policy)?.[1];

test('the documentation has the name and the logo of the product, and links to support where it says to ask the operator', (t) => {
  const { textOf, missing, policy } = siteOf(hostile);
  const html = textOf('errors');
  t.true(html.includes(`<title>Errors – ${escaped}</title>`));
  t.false(html.includes('<script>alert'));
  t.true(html.includes('<img class="logo" src="https://images.example.com/logo.svg?a=1&amp;b=&quot;2&quot;" alt=""'));
  t.is(imagesIn(policy), "'self' https://images.example.com");
  const support = '<a href="https://help.example.com/?a=1&amp;b=&quot;2&quot;">';
  t.regex(html, /[Aa]sk <a href="https:\/\/help[^>]+>the operator<\/a>/);
  t.true(html.includes(`${support}Support</a>`));
  t.true(String(missing.bytes).includes(`ask ${support}the operator</a>`));
  t.false(/<a [^>]*>(?:(?!<\/a>).)*<a /s.test(html), 'no link in a link');
});

test('without these settings, the documentation has its own mark and no links to support', (t) => {
  const { textOf, missing, policy } = siteOf({ name: 'Inference service' });
  const html = textOf('errors');
  t.regex(html, /<img src="\/docs\/assets\/[^"]+icon\.svg"/);
  t.is(imagesIn(policy), "'self'");
  t.false(html.includes('Support</a>') || html.includes('class="logo"'));
  t.regex(String(missing.bytes), /ask the operator/);
});

const settings = {
  ...{ ...addresses, docsUrl: links.docsUrl, issuer: 'https://issuer.example' },
  ...{ consoleClientId: 'console', consoleScopes: 'openid', consoleResource: '' },
};

test('the page of the console carries the product to its modules, and its name is text', (t) => {
  const html = String(makeConsoleFiles({ ...settings, product: hostile }).page.bytes);
  t.true(html.includes(`<title>${escaped}</title>`) && html.includes(`<h1>${escaped} console</h1>`));
  t.false(html.includes('<script>alert'));
  const [, content = ''] = /name="console-settings" content="([^"]+)"/.exec(html) ?? [];
  const text = content
    .replaceAll('&quot;', '"')
    .replaceAll('&lt;', '<')
    .replaceAll('&gt;', '>')
    .replaceAll('&amp;', '&');
  t.like(JSON.parse(text), { product: hostile });
});

test('the policy of the console allows images from the origin of the logo, and from nowhere else', async (t) => {
  const { page } = createConsole(
    { ...settings, product: hostile },
    { shared: { async share() {}, find: async () => undefined }, endpointOrigins: () => [] },
  );
  const sent: Record<string, string> = {};
  const set = (headers: Record<string, string>) => void Object.assign(sent, headers);
  await page({ set, vary() {}, fresh: true, state: {} } as unknown as AppContext); // what the stage uses
  t.is(imagesIn(sent['content-security-policy'] ?? ''), "'self' https://images.example.com");
  t.is(imagesIn(contentSecurityPolicy({ product: {} })), "'self'");
});
