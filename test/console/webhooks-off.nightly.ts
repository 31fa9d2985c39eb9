import test from 'ava';
import { openBrowserTests } from '../support/browser/browser-tests.ts';

const { browserTest, openConsole } = openBrowserTests(test);

browserTest('if the operator has not enabled webhooks, the page says so', async (t) => {
  await using console = await openConsole();
  await console.goTo('webhooks');
  await console.signIn('hooked');
  await console.page.getByText('The operator of this service has not enabled webhooks.').waitFor();
  t.is(await console.page.getByRole('button', { name: 'Create an endpoint' }).count(), 0);
});
