import test from 'ava';
import OpenAI from 'openai';
import { openBrowserTests } from '../support/browser/browser-tests.ts';

const { browserTest, stack, openConsole } = openBrowserTests(test);

const models = (apiKey: string) =>
  new OpenAI({ baseURL: `${stack().baseUrl}/v1`, apiKey, maxRetries: 0 }).models.list().then(
    ({ data }) => data.length,
    (error: { status: number; code: string }) => error.status,
  );

browserTest(
  'mints a key that works with the official SDK, rotates it, which stops the old one, and revokes it',
  async (t) => {
    await using console = await openConsole();
    const { page } = console;
    await console.goTo('keys');
    await console.signIn('minter');
    await page.getByText('You have no key yet.').waitFor();
    await page.getByRole('button', { name: 'Mint a key' }).click();
    const shown = page.locator('code.key');
    const first = await shown.innerText();
    t.regex(first, /^svc_[0-9A-Za-z]{38}$/);
    t.is(await models(first), 2);

    await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
    await page.getByRole('button', { name: 'Copy' }).click();
    await page.getByText('Copied.').waitFor();
    t.is(await page.evaluate('navigator.clipboard.readText()'), first);
    await page.getByRole('link', { name: 'Usage' }).click();
    await page.getByRole('link', { name: 'Keys' }).click();
    t.is(await shown.innerText(), first, 'it is shown until it is dismissed');
    await page.getByRole('button', { name: 'Copy' }).click();
    await page.getByText('Copied.').waitFor();

    const masked = `${first.slice(0, 10)}****`;
    await page.getByRole('button', { name: 'Rotate' }).click();
    const dialog = page.getByRole('dialog', { name: 'Rotate this key?' });
    t.true((await dialog.innerText()).includes(`${masked} stops working everywhere, immediately`));
    await dialog.getByRole('button', { name: 'Go back' }).click();
    await page.locator('dialog').waitFor({ state: 'detached' }); // closed, it has no role before it is removed
    t.is(await page.evaluate('document.activeElement.innerText'), 'Rotate', 'the focus returns to where it was');
    t.is(await models(first), 2, 'an unconfirmed action is not executed');

    await page.getByRole('button', { name: 'Rotate' }).click();
    await dialog.getByRole('button', { name: 'Rotate' }).click();
    await page.getByText(first).waitFor({ state: 'detached' });
    const second = await shown.innerText();
    t.is(await page.getByText('Copied.').count(), 0, 'the copied key is another one');
    t.not(second, first);
    t.is(await models(first), 401);
    t.is(await models(second), 2);
    await page.getByRole('button', { name: 'I have stored it' }).click();

    await page.getByRole('button', { name: 'Revoke' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Revoke' }).click();
    await page.getByText('You have no active key').waitFor();
    t.is(await models(second), 401);
    t.is(await page.evaluate('document.activeElement.innerText'), 'Keys', 'the focused element is gone');
    const states = await page.locator('tbody .state').allInnerTexts();
    t.deepEqual(states, ['revoked', 'rotated']);
    await console.requireClean(t);
  },
);

browserTest('a key changed elsewhere meanwhile gets the error of the API, with the request id', async (t) => {
  await using console = await openConsole();
  const { page } = console;
  await console.goTo('keys');
  await console.signIn('hasty');
  await page.getByRole('button', { name: 'Mint a key' }).click();
  const key = await page.locator('code.key').innerText();
  await page.getByRole('button', { name: 'I have stored it' }).click();
  await page.getByRole('button', { name: 'Revoke' }).click();

  const revoked = await fetch(`${stack().baseUrl}/v1/keys/developer/revoke`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${await stack().identity.token('hasty')}` },
    body: JSON.stringify({ key }),
  });
  t.is(revoked.status, 200);
  console.expectFailures();
  let renewals = 0;
  page.on('request', (request) => {
    if (request.url().endsWith('/token')) renewals += 1;
  });
  const dialog = page.getByRole('dialog');
  await dialog.getByRole('button', { name: 'Revoke' }).click();
  const failure = await dialog.locator('.failure').innerText();
  t.regex(failure, /The API key is unknown, revoked or rotated\./);
  t.regex(failure, /401 INVALID_KEY · request req_[0-9A-Z]{26}/);
  await dialog.getByRole('button', { name: 'Go back' }).click();
  await page.getByText('You have no active key').waitFor();
  await page.getByRole('button', { name: 'Sign out' }).waitFor();
  t.is(renewals, 0, 'a 401 for a key is not a 401 for the token');
  await console.requireClean(t);
});
