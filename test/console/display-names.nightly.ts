import test from 'ava';
import { openBrowserTests } from '../support/browser/browser-tests.ts';
import { createKeyClient } from '../support/key-client.ts';

// The issuer gives the user of the console no scope for operators.
const env = { AUTH_NAME_CLAIM: 'sub', AUTH_OPERATORS: 'scope=svc:admin,sub=penny' };
const { browserTest, stack, openConsole } = openBrowserTests(test, { env });

browserTest(
  'an operator without a scope sees display names beside the accounts, and finds accounts by them',
  async (t) => {
    const keys = createKeyClient(stack());
    const key = await keys.newKey('carol coriander');
    t.is((await keys.infer(key)).status, 200);
    await keys.change('user:carol coriander', { overageEnabled: true });
    await using console = await openConsole();
    const { page } = console;
    await console.goTo('accounts');
    await console.signIn('penny');
    const shown = 'user:carol coriander (carol coriander)';
    await page.getByRole('rowheader', { name: shown }).waitFor();
    await console.goTo('audit');
    await page.getByRole('cell', { name: shown }).first().waitFor();
    await console.goTo('all-usage');
    await page.getByRole('rowheader', { name: shown }).waitFor();
    await console.goTo('find?cORIA');
    await page.getByRole('heading', { name: shown }).waitFor();
    await console.requireClean(t);
  },
);
