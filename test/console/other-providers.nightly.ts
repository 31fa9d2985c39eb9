import test from 'ava';
import { openBrowserTests } from '../support/browser/browser-tests.ts';
import { recordSignIns } from '../support/browser/console-page.ts';

/** One provider with all differences, and the settings for it. */
const { browserTest, stack, openConsole } = openBrowserTests(test, {
  identity: { refreshTokensForOffline: true, unknownScope: 'svc:admin', endpointHost: 'localhost' },
  env: { CONSOLE_RESOURCE: '' },
});

browserTest(
  'at a provider that does not know svc:admin and gives a refresh token only for offline_access, one sign-in gets tokens',
  async (t) => {
    await using console = await openConsole();
    const { page } = console;
    const asked = recordSignIns(page, stack().identity.issuer);
    await page.clock.install();
    await console.goTo('usage');
    await console.signIn('anna');
    const attempts = [
      { scope: 'openid svc:admin', prompt: undefined, resource: undefined, audience: undefined },
      { scope: 'openid', prompt: undefined, resource: undefined, audience: undefined },
      { scope: 'openid offline_access', prompt: 'none', resource: undefined, audience: undefined },
    ];
    t.deepEqual(asked.splice(0), attempts);
    t.is(page.url(), `${console.url}#usage`);

    await page.reload();
    await page.getByRole('button', { name: 'Sign out' }).waitFor();
    t.deepEqual(
      asked.splice(0),
      attempts.map((attempt) => ({ ...attempt, prompt: 'none' })),
      'without a prompt',
    );
    t.is(page.url(), `${console.url}#usage`);

    const renewal = page.waitForResponse((response) => response.url().endsWith('/token'));
    await page.clock.fastForward('59:30');
    t.is((await renewal).status(), 200);
    t.is(new URL((await renewal).url()).hostname, 'localhost', 'not the host of the issuer');
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.getByRole('button', { name: 'Sign in' }).waitFor();
    await console.requireClean(t);
  },
);

browserTest('the policy of the page has the origins of the endpoints in the discovery of the provider', async (t) => {
  const { headers } = await fetch(`${stack().baseUrl}/console`);
  const [issuer, endpoints] = stack().identity.origins;
  t.regex(
    headers.get('content-security-policy') ?? '',
    new RegExp(` connect-src 'self' ${issuer} [^;]+ ${endpoints};`),
  );
});
