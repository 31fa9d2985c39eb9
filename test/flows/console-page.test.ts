import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import test from 'ava';
import { createSharedAssets } from '../../ingress/pages/shared-assets.ts';
import { createAssetSet } from '../../ingress/pages/static-content.ts';
import type { Stack } from '../stack/stack.ts';
import { openRedis } from '../support/open-redis.ts';
import { otherAddresses } from '../support/other-addresses.ts';
import { exchange } from '../support/raw-http.ts';
import { recordedLog } from '../support/recorded-log.ts';
import { openSharedStack } from '../support/shared-stack.ts';

const shared = openSharedStack(test, { workers: 0, env: otherAddresses });
let stack: Stack;

test.before(async () => {
  stack = await shared.started();
});

const url = (path: string) => `${stack.ingresses[0]?.url}${path}`;
/** `fetch` adds headers of its own that name accepted types and encodings. */
const get = (header: string) =>
  exchange({
    port: Number(new URL(url('/')).port),
    send: `GET /console HTTP/1.1\r\nHost: x\r\n${header}\r\nConnection: close\r\n\r\n`,
  });
const page = async () => (await fetch(url('/console'))).text();

test('the page contains the settings of its own service and nothing else, whichever characters they contain', async (t) => {
  const html = await page();
  const [, content = ''] = /<meta name="console-settings" content="([^"]*)">/.exec(html) ?? [];
  const settings = JSON.parse(content.replaceAll('&quot;', '"').replaceAll('&lt;', '<').replaceAll('&gt;', '>'));
  t.deepEqual(settings, {
    baseUrl: stack.baseUrl,
    consoleUrl: 'https://console.example/some/where/',
    docsUrl: otherAddresses.DOCS_URL,
    product: { name: 'Inference service' },
    issuer: stack.identity.issuer,
    consoleClientId: 'a"b<c>',
    consoleScopes: 'openid svc:admin',
    consoleResource: stack.baseUrl,
  });
  t.false(html.includes('<script>'), 'no inline script');
  t.false(/ style=| on\w+=/.test(html));
});

test('the page may load only from its own host and reach the API and the issuer, and cannot be framed', async (t) => {
  const { headers } = await fetch(url('/console'));
  t.is(
    headers.get('content-security-policy'),
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; " +
      `connect-src 'self' ${stack.identity.issuer} ${stack.baseUrl}; form-action 'none'; base-uri 'none'; ` +
      "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
  );
  t.is(headers.get('x-frame-options'), 'DENY');
  t.is(headers.get('x-content-type-options'), 'nosniff');
  t.is(headers.get('referrer-policy'), 'no-referrer');
  t.is(headers.get('cross-origin-opener-policy'), 'same-origin');
  t.is(headers.get('cache-control'), 'no-cache');
  t.is(headers.get('access-control-allow-origin'), null);
});

test('everything the page loads is served below the path of CONSOLE_URL, is cached permanently, and gets 304 on repeat', async (t) => {
  const html = await page();
  const links = [...html.matchAll(/(?:href|src)="([^"]+)"/g)].map(([, link = '']) => link);
  t.true(links.length > 30);
  for (const link of links) {
    t.true(link.startsWith('/some/where/assets/'), link);
    const asset = await fetch(url(link.replace('/some/where', '/console')));
    t.is(asset.status, 200, link);
    t.is(asset.headers.get('cache-control'), 'public, max-age=31536000, immutable');
    t.regex(asset.headers.get('content-type') ?? '', /^(text\/(javascript|css); charset=utf-8|image\/svg\+xml)$/);
  }
  const etag = (await fetch(url('/console'))).headers.get('etag') ?? '';
  const again = await get(`If-None-Match: ${etag}`);
  t.like(again, { status: 304, body: '' });
});

test('responses are compressed only for clients that accept it', async (t) => {
  const plain = await get('Accept-Encoding: identity');
  t.is(plain.headers['content-encoding'], undefined);
  const lengths = { br: 0, gzip: 0 };
  for (const [encoding, decompress] of Object.entries({ br: brotliDecompressSync, gzip: gunzipSync })) {
    const response = await fetch(url('/console'), { headers: { 'accept-encoding': encoding } });
    t.is(response.headers.get('content-encoding'), encoding);
    t.regex(response.headers.get('vary') ?? '', /Accept-Encoding/);
    lengths[encoding as 'br' | 'gzip'] = Number(response.headers.get('content-length'));
    t.is(await response.text(), plain.body, String(decompress.name));
  }
  t.true(lengths.br < plain.body.length / 2 && lengths.gzip < plain.body.length / 2);
});

test('unknown paths and unsupported methods are answered as on all other routes', async (t) => {
  for (const path of [
    '/console/assets/none/main.js',
    '/console/assets/',
    '/console/other',
    '/console/assets/..%2f..%2fpackage.json',
  ]) {
    const response = await fetch(url(path));
    t.is(response.status, 404, path);
    t.like(await response.json(), { code: 'NOT_FOUND' });
  }
  t.is((await fetch(url('/console'), { method: 'POST' })).status, 405);
  t.is((await fetch(url('/console'), { method: 'HEAD' })).status, 200);
  t.is((await fetch(url('/console/'))).status, 200, 'an address may end with a slash');
});

test('an ingress serves the console of another release, which that release has shared', async (t) => {
  const { assets, nameOf } = createAssetSet(new Map([['main.js', 'export {};']]));
  const redis = openRedis(stack.redisUrl);
  t.teardown(() => redis.disconnect());
  await createSharedAssets({ redis, log: recordedLog().log }).share(assets);
  const asset = () => fetch(url(`/console/assets/${nameOf('main.js')}`));
  const found = await asset();
  t.is(found.status, 200);
  t.is(await found.text(), 'export {};');
  t.is(found.headers.get('cache-control'), 'public, max-age=31536000, immutable');
  t.is(found.headers.get('content-type'), 'text/javascript; charset=utf-8');
  t.is((await fetch(url('/console/assets/0123456789abcdef/main.js'))).status, 404);
});
