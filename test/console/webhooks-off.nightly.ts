import test from 'ava';
import { openBrowserTests } from '../support/browser/browser-tests.ts';

const { browserTest, openConsole } = openBrowserTests(test);

browserTest(
  'if the operator has not enabled webhooks, the page says so, and tells an operator what to set',
  async (t) => {
    await using console = await openConsole();
    await console.goTo('webhooks');
    await console.signIn('hooked');
    await console.page.getByText('The operator of this service has not enabled webhooks.').waitFor();
    t.is(await console.page.getByRole('button', { name: 'Create an endpoint' }).count(), 0);
    await using operators = await openConsole();
    await operators.goTo('webhooks');
    await operators.signIn('olga');
    await operators.page.getByText('Set WEBHOOK_SECRET_KEY of all ingresses and workers').waitFor();
  },
);
