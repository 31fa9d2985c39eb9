import test from 'ava';
import { createConsole } from '../../../../ingress/pages/console/console.ts';
import type { AppContext } from '../../../../ingress/request-state.ts';

const settings = {
  ...{ baseUrl: 'https://api.example', issuer: 'https://issuer.example' },
  ...{ docsUrl: 'https://api.example/docs', consoleClientId: 'console', consoleUrl: 'no address' },
  ...{ consoleScopes: 'openid', consoleResource: '' },
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
