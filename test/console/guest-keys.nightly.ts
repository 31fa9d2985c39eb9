import test from 'ava';
import { deviceAccount } from '../../ingress/console/operators/accounts-page.ts';
import { openBrowserTests } from '../support/browser/browser-tests.ts';
import { createKeyClient, fullKey } from '../support/key-client.ts';

const { browserTest, stack, openConsole } = openBrowserTests(test);

browserTest('a guest key is created, looked up and copied, and the day of its device is shown', async (t) => {
  const keys = createKeyClient(stack());
  await using console = await openConsole();
  const { page } = console;
  const figure = (term: string) => page.locator('.figures div').filter({ hasText: term }).locator('dd');
  const shown = page.locator('code.key');
  await console.goTo('keys');
  await console.signIn('guardian');
  await page.getByLabel('Device ID').fill('device-of-the-console');
  await page.getByRole('button', { name: 'Get the key' }).click();
  await page.getByRole('heading', { name: 'Key of device device-of-the-console' }).waitFor();
  const key = await shown.innerText();
  t.regex(key, fullKey);
  await figure('Left today').waitFor();
  t.is(await figure('Plan').innerText(), 'guest-device');
  t.is(await figure('Requests a day').innerText(), '50');
  t.is(await figure('Requests today').innerText(), '0');
  t.is(await figure('Left today').innerText(), '50');

  await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
  await page.getByRole('button', { name: 'Copy the guest key' }).click();
  await page.getByText('Copied.').waitFor();
  t.is(await page.evaluate('navigator.clipboard.readText()'), key);

  t.is((await keys.infer(key)).status, 200);
  await page.getByRole('button', { name: 'Refresh the figures' }).click();
  await figure('Left today').getByText('49', { exact: true }).waitFor();
  t.is(await figure('Requests today').innerText(), '1');

  await page.getByRole('button', { name: 'Hide the guest key' }).click();
  await shown.waitFor({ state: 'detached' });
  await page.getByRole('button', { name: 'Get the key' }).click();
  t.is(await shown.innerText(), key, 'the same device gets the same key');
  await page.getByRole('button', { name: 'Hide the guest key' }).click();
  await page.getByLabel('Device ID').fill('');
  await console.requireClean(t);
});

browserTest('a refused device ID is reported at its field, and shows no key', async (t) => {
  await using console = await openConsole();
  const { page } = console;
  await console.goTo('keys');
  await console.signIn('mistyper');
  const field = page.getByLabel('Device ID');
  await field.fill('device-of-the-mistyper');
  await page.getByRole('button', { name: 'Get the key' }).click();
  await page.locator('code.key').waitFor();
  console.expectFailures();
  await field.fill('short');
  await page.getByRole('button', { name: 'Get the key' }).click();
  await page.getByText('expected 8 to 256 visible characters', { exact: true }).waitFor();
  t.is(await field.getAttribute('aria-invalid'), 'true');
  t.is(await page.locator('code.key').count(), 0);

  const keys = createKeyClient(stack());
  await keys.guest('device-of-a-thief');
  await keys.change(await deviceAccount('device-of-a-thief'), { suspended: true });
  await field.fill('device-of-a-thief');
  await page.getByRole('button', { name: 'Get the key' }).click();
  await page.getByText('403 FORBIDDEN').waitFor();
  await console.requireClean(t);
});
