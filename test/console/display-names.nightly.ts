import test from 'ava';
import { openBrowserTests } from '../support/browser/browser-tests.ts';
import { createKeyClient } from '../support/key-client.ts';

const { browserTest, stack, openConsole } = openBrowserTests(test, { env: { AUTH_NAME_CLAIM: 'sub' } });

browserTest('display names stand beside the accounts, and find them', async (t) => {
  const keys = createKeyClient(stack());
  const key = await keys.newKey('carol coriander');
  t.is((await keys.infer(key)).status, 200);
  await keys.change('user:carol coriander', { overageEnabled: true });
  await using console = await openConsole();
  const { page } = console;
  await console.goTo('accounts');
  await console.signIn('olga');
  const shown = 'user:carol coriander (carol coriander)';
  await page.getByRole('rowheader', { name: shown }).waitFor();
  await console.goTo('audit');
  await page.getByRole('cell', { name: shown }).waitFor();
  await console.goTo('all-usage');
  await page.getByRole('rowheader', { name: shown }).waitFor();
  await console.goTo('find?cORIA');
  await page.getByRole('heading', { name: shown }).waitFor();
  await console.requireClean(t);
});
