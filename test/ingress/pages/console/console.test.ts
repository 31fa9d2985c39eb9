import test from 'ava';
import { createConsole } from '../../../../ingress/pages/console/console.ts';
import type { AppContext } from '../../../../ingress/request-state.ts';

test('if its files cannot be made, the console answers 503 and does not try again at once', async (t) => {
  const settings = {
    ...{ baseUrl: 'https://api.example', audience: 'https://api.example', issuer: 'https://issuer.example' },
    ...{ docsUrl: 'https://api.example/docs', consoleClientId: 'console', consoleUrl: 'no address' },
  };
  const { page, asset } = createConsole(settings, { async share() {}, find: async () => undefined });
  const context = {} as AppContext; // both stages fail before they use it
  const next = async () => {};
  const expected = { code: 'SERVICE_UNAVAILABLE', message: 'The console is not available right now. Retry.' };
  const first = await t.throwsAsync(async () => page(context, next), expected);
  t.like(first, { retryAfterMs: 5_000 });
  t.is(await t.throwsAsync(async () => asset(context, next), expected), first);
});
