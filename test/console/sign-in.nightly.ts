import test from 'ava';
import { openBrowserTests } from '../support/browser/browser-tests.ts';
import { recordSignIns } from '../support/browser/console-page.ts';

const { browserTest, stack, openConsole } = openBrowserTests(test);

browserTest('signing in returns to the previous page, and the address keeps no trace of it', async (t) => {
  await using console = await openConsole();
  const { page } = console;
  await console.goTo('batches');
  await page.getByRole('heading', { name: 'Console' }).waitFor();
  t.is(await page.title(), 'Sign in · Inference service');
  await console.signIn('returner');
  t.is(page.url(), `${console.url}#batches`);
  t.is(await page.title(), 'Batches · Inference service');
  await page.getByText('user:returner').waitFor();
  t.is(await page.evaluate('document.activeElement.textContent'), 'Batches', 'reading continues at the heading');
  await console.requireClean(t);
});

browserTest('a reload and another tab ask the issuer without a prompt: the user is still signed in', async (t) => {
  await using console = await openConsole();
  const { page } = console;
  const asked = recordSignIns(page, stack().identity.issuer);
  await console.goTo('usage');
  await console.signIn('reloader');
  const api = { resource: stack().baseUrl, audience: stack().baseUrl };
  const one = { scope: 'openid svc:admin', prompt: undefined, ...api };
  t.deepEqual(asked.splice(0), [one], 'one request, without offline_access');
  await page.reload();
  await page.getByRole('button', { name: 'Sign out' }).waitFor();
  t.is(page.url(), `${console.url}#usage`);
  t.deepEqual(asked.splice(0), [{ ...one, prompt: 'none' }]);

  const other = await page.context().newPage();
  await other.goto(`${console.url}#keys`);
  await other.getByRole('button', { name: 'Sign out' }).click();
  await other.getByRole('button', { name: 'Sign in' }).waitFor();
  await page.getByText('You have signed out in another tab.').waitFor();
  await page.reload();
  await page.getByRole('button', { name: 'Sign in' }).waitFor();
  t.deepEqual(asked, [], 'after a sign-out the issuer is not asked');
  await console.requireClean(t);
});

browserTest('a reload while the page leaves for the issuer keeps the user signed in', async (t) => {
  await using console = await openConsole();
  const { page } = console;
  await console.goTo('usage');
  await console.signIn('hurrier');
  const asked = recordSignIns(page, stack().identity.issuer);
  const stays = page.waitForEvent('requestfailed', (one) => one.url().includes('code_challenge='));
  await page.route(/code_challenge=/, (route) => route.fulfill({ status: 204 }), { times: 1 }); // the page stays
  console.expectFailures();
  await page.reload();
  await stays;
  await page.reload();
  await page.getByRole('button', { name: 'Sign out' }).waitFor();
  t.deepEqual(
    asked.map(({ prompt }) => prompt),
    ['none', 'none'],
  );
  await console.requireClean(t);
});

browserTest('a user whose session at the issuer has ended is asked to sign in, only once', async (t) => {
  await using console = await openConsole();
  const { page } = console;
  await console.goTo('keys');
  await console.signIn('leaver');
  await page.context().clearCookies();
  await page.reload();
  await page.getByRole('button', { name: 'Sign in' }).waitFor();
  t.is(page.url(), `${console.url}#keys`);
  t.is(await page.getByRole('alert').count(), 0, 'nothing has failed');
  await console.requireClean(t);
});

browserTest('an expired token is renewed, and its request is repeated', async (t) => {
  await using console = await openConsole();
  const { page } = console;
  await console.goTo('keys');
  await console.signIn('sleeper');
  await page.getByText('You have no key. Create one to call the API.').waitFor();
  const expired = await stack().identity.token('sleeper', { expiresIn: -60 });
  const statuses: number[] = [];
  page.on('response', (response) => {
    if (response.url().endsWith('/v1/keys') && response.request().method() === 'POST') statuses.push(response.status());
  });
  await page.route(
    '**/v1/keys',
    (route) => route.continue({ headers: { ...route.request().headers(), authorization: `Bearer ${expired}` } }),
    { times: 1 },
  );
  console.expectFailures();
  await page.getByRole('button', { name: 'Create a key' }).click();
  await page.getByRole('dialog').getByLabel('Name').fill('sleepy');
  await page.getByRole('dialog').getByRole('button', { name: 'Create' }).click();
  await page.getByRole('button', { name: 'I have stored it' }).click();
  t.deepEqual(statuses.slice(0, 2), [401, 200]);
  await console.requireClean(t);
});

browserTest('a token is renewed before it expires, without user action', async (t) => {
  await using console = await openConsole();
  const { page } = console;
  await page.clock.install();
  await console.goTo('keys');
  await console.signIn('waiter');
  const renewal = page.waitForResponse((response) => response.url().endsWith('/token'));
  await page.clock.fastForward('59:30');
  t.is((await renewal).status(), 200);
  await page.getByRole('button', { name: 'Sign out' }).waitFor();
  await console.requireClean(t);
});

browserTest(
  'signing out ends the session at the issuer: the refresh token is rejected, and signing in asks for the name',
  async (t) => {
    await using console = await openConsole();
    const { page } = console;
    await console.goTo('keys');
    const granted = page.waitForResponse((response) => response.url().endsWith('/token'));
    await console.signIn('ender');
    const { refresh_token } = (await (await granted).json()) as { refresh_token: string };
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.waitForURL(console.url);
    await page.getByRole('button', { name: 'Sign in' }).waitFor();
    const renewal = await fetch(`${stack().identity.issuer}/token`, {
      method: 'POST',
      body: new URLSearchParams({ grant_type: 'refresh_token', client_id: 'console', refresh_token }),
    });
    t.is(renewal.status, 400);
    await page.reload();
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByLabel('Name').waitFor();
    await console.requireClean(t);
  },
);

browserTest('a response of the issuer that this tab did not request signs no user in', async (t) => {
  await using console = await openConsole();
  const { page } = console;
  await page.goto(`${console.url}?code=stolen&state=guessed#keys`);
  await page.getByText('This sign-in was not started in this tab').waitFor();
  t.is(page.url(), console.url);
  await console.requireClean(t);
});
