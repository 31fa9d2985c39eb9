import test from 'ava';
import { documentedFetch } from '../support/documented/documented-fetch.ts';
import { otherAddresses } from '../support/other-addresses.ts';
import { openSharedStack } from '../support/shared-stack.ts';

const shared = openSharedStack(test, { workers: 0, env: otherAddresses });
const browser = 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8';

test('the root lists the console, the documentation and the OpenAPI document, and redirects browsers to the console', async (t) => {
  const stack = shared.stack();
  const url = `${stack.ingresses[0]?.url}/`;
  const get = (accept: string, method = 'GET') =>
    documentedFetch(url, { method, headers: { accept }, redirect: 'manual' });
  const addresses = {
    console: otherAddresses.CONSOLE_URL,
    docs: otherAddresses.DOCS_URL,
    openapi: `${stack.baseUrl}/openapi.json`,
  };
  for (const accept of ['*/*', 'application/json', 'image/png']) {
    const answer = await get(accept);
    t.is(answer.status, 200, accept);
    t.is(answer.headers.get('content-type'), 'application/json; charset=utf-8');
    t.regex(answer.headers.get('vary') ?? '', /\bAccept\b/);
    t.deepEqual(await answer.json(), addresses, accept);
  }
  for (const accept of [browser, 'text/html']) {
    const answer = await get(accept);
    t.is(answer.status, 302, accept);
    t.is(answer.headers.get('location'), otherAddresses.CONSOLE_URL);
    t.deepEqual(await answer.json(), addresses);
  }
  t.is((await get(browser, 'HEAD')).status, 302);
  t.is((await get('*/*', 'POST')).status, 405);
});

test('the list of pages for language models is at the top of the host, with the addresses of the service', async (t) => {
  const answer = await fetch(`${shared.stack().ingresses[0]?.url}/llms.txt`);
  t.is(answer.status, 200);
  t.is(answer.headers.get('content-type'), 'text/plain; charset=utf-8');
  t.true((await answer.text()).includes(`(${otherAddresses.DOCS_URL}/quick-start.md)`));
});

test('an unknown path below the documentation is an HTML page', async (t) => {
  for (const path of ['nothing', 'errors/nothing', 'assets/nothing']) {
    const answer = await fetch(`${shared.stack().ingresses[0]?.url}/docs/${path}`);
    t.is(answer.status, 404, path);
    t.is(answer.headers.get('content-type'), 'text/html; charset=utf-8', path);
    t.true((await answer.text()).includes('Page not found'), path);
  }
});
