import type { ExecutionContext } from 'ava';
import type { Page } from 'playwright-core';
import { fullKeysIn } from '../../stack/search-keys.ts';
import type { Stack } from '../../stack/stack.ts';

/** Console messages of a browser about a failed response or none, as opposed to errors of the page itself. */
const failedRequest = /^Failed to load resource: /;

const jwt = /eyJ[\w-]+\.eyJ[\w-]+\.[\w-]+/;

/** Both run in the page. */
const reportViolations = `document.addEventListener('securitypolicyviolation', ({ violatedDirective, blockedURI }) => {
  window.noteViolation(violatedDirective + ' ' + blockedURI);
});`;
const whatIsLeft = `(async () => ({
  local: JSON.stringify({ ...localStorage }),
  session: JSON.stringify({ ...sessionStorage }),
  databases: JSON.stringify(await indexedDB.databases()),
  caches: JSON.stringify(await caches.keys()),
  source: document.documentElement.outerHTML,
  address: location.href,
}))()`;

/**
 * Records what a page logs, requests and receives from now on, in every document that it shows: errors, and secrets that must not be left
 * anywhere.
 */
export async function watchPage(page: Page, { stack, origins }: { stack: Stack; origins: readonly string[] }) {
  const known = new Set([stack.baseUrl, ...origins]);
  const wrong: string[] = [];
  const addresses: string[] = [];
  const said: string[] = [];
  const secrets = new Set<string>();
  let failuresExpected = false;
  let secretsExpected = false;

  await page.exposeFunction('noteViolation', (violation: string) => wrong.push(`policy violation: ${violation}`));
  await page.addInitScript({ content: reportViolations });
  page.on('console', (message) => {
    said.push(message.text());
    if (message.type() !== 'error' || (failuresExpected && failedRequest.test(message.text()))) return;
    wrong.push(`console: ${message.text()} (${message.location().url})`);
  });
  page.on('pageerror', (error) => wrong.push(`uncaught: ${error.message}`));
  page.on('request', (request) => {
    const { protocol, origin } = new URL(request.url());
    if (protocol.startsWith('http') && !known.has(origin)) wrong.push(`a request to ${request.url()}`);
    addresses.push(request.url());
  });
  page.on('framenavigated', (frame) => addresses.push(frame.url()));
  page.on('response', async (response) => {
    if (!/\/token$|\/v1\/keys(\/|$)/.test(new URL(response.url()).pathname)) return;
    const body = await response.text().catch(() => ''); // the page was left meanwhile
    for (const secret of secretsIn(body)) secrets.add(secret);
  });

  return {
    /** From now on something must be found. */
    expectSecrets() {
      secretsExpected = true;
    },
    expectFailures() {
      failuresExpected = true;
    },
    async requireClean(t: ExecutionContext): Promise<void> {
      t.deepEqual(wrong, []);
      const left = await page.evaluate<Record<string, string>>(whatIsLeft);
      const cookies = await page.context().cookies();
      const logs = JSON.stringify(stack.started().map((process) => process.logs));
      const places = { ...left, addresses: addresses.join('\n'), said: said.join('\n'), logs };
      t.true(secrets.size > 0 || !secretsExpected, 'the issued tokens are known');
      const scripts = JSON.stringify(cookies.filter(({ httpOnly }) => !httpOnly));
      for (const [place, text] of Object.entries({ ...places, scripts })) {
        t.notRegex(text, jwt, place);
      }
      // A provider may use a signed token as the cookie of its own session.
      for (const [place, text] of Object.entries({ ...places, cookies: JSON.stringify(cookies) })) {
        t.deepEqual(fullKeysIn(text), [], place);
        t.deepEqual(
          [...secrets].filter((secret) => text.includes(secret)),
          [],
          place,
        );
      }
    },
  };
}

function secretsIn(body: string): string[] {
  const named = body.matchAll(/"(?:access_token|refresh_token|id_token|key)":"([^"*]{20,})"/g);
  return [...named].map(([, secret = '']) => secret);
}
