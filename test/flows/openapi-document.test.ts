import test from 'ava';
import { createOpenApiDocument } from '../../ingress/api/openapi-document.ts';
import { routes } from '../../ingress/routes.ts';
import { documentedFetch } from '../support/documented/documented-fetch.ts';
import { otherAddresses } from '../support/other-addresses.ts';
import { openSharedStack } from '../support/shared-stack.ts';

const shared = openSharedStack(test, { workers: 0, env: otherAddresses });

test('the document is public, compressed, has the addresses of this service, and is sent once', async (t) => {
  const stack = shared.stack();
  const url = `${stack.ingresses[0]?.url}/openapi.json`;
  const origin = 'https://page.example.com';
  const response = await fetch(url, { headers: { origin, 'accept-encoding': 'br' } });
  t.is(response.status, 200);
  const { headers } = response;
  t.is(headers.get('content-type'), 'application/json; charset=utf-8');
  t.is(headers.get('cache-control'), 'no-cache');
  t.is(headers.get('content-encoding'), 'br');
  t.is(headers.get('access-control-allow-origin'), '*');
  t.regex(headers.get('x-request-id') ?? '', /^req_/);
  t.true(Number(headers.get('content-length')) < 40_000, 'it is sent compressed');
  const addresses = { baseUrl: stack.baseUrl, docsUrl: otherAddresses.DOCS_URL, authUrl: stack.identity.issuer };
  t.deepEqual(await response.json(), JSON.parse(JSON.stringify(createOpenApiDocument(routes, addresses))));

  // As browsers revalidate; by default fetch requests the full document.
  const known = { 'if-none-match': headers.get('etag') ?? '', 'cache-control': 'max-age=0' };
  const again = await documentedFetch(url, { headers: known });
  t.deepEqual([again.status, await again.text()], [304, '']);
  const head = await documentedFetch(url, { method: 'HEAD' });
  t.deepEqual([head.status, head.headers.get('etag'), await head.text()], [200, headers.get('etag'), '']);
});
