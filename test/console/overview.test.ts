import test from 'ava';
import type { Page } from 'playwright-core';
import { openBrowserTests } from '../support/browser/browser-tests.ts';
import { createFurtherKeyClient } from '../support/further-key-client.ts';
import { createKeyClient } from '../support/key-client.ts';

const plan = { requests_per_minute: 5, tokens_per_month: 1_000, model_tiers: ['guest', 'standard'] };
const { browserTest, stack, openConsole } = openBrowserTests(test, { plans: { 'five-a-minute': plan } });

browserTest('a new account gets from sign-in to its first answer and its usage by the first steps', async (t) => {
  await using console = await openConsole();
  const { page } = console;
  const click = (name: string, role: 'link' | 'button' = 'link') =>
    page.getByRole(role, { name, exact: true }).first().click();
  await console.goTo('');
  await console.signIn('first-timer');
  const steps = page.getByRole('region', { name: 'First steps' });
  await steps.waitFor();
  await click('Create a key');
  await page.getByRole('dialog').getByLabel('Name').fill('my program');
  await click('Create', 'button');
  await page.getByRole('heading', { name: 'Your new key "my program"' }).waitFor();
  await click('Try it', 'button');
  await page.getByText('Your new key "my program" is used.').waitFor();
  await click('Send', 'button');
  await page.getByText('The answer is complete.').waitFor();
  await click('Overview');
  await steps.waitFor({ state: 'detached' });
  await page
    .getByRole('region', { name: 'This month' })
    .getByText(/^This month: [1-9]\d*/)
    .waitFor();
  await page.getByRole('region', { name: 'Call the API' }).getByText('svc_').waitFor();
  await console.requireClean(t);
});

browserTest(
  'the overview shows usage with a chart, the limits of the last hour and the key that expires soon, and opens an hour',
  async (t) => {
    const keys = createKeyClient(stack());
    const key = await keys.newKey('regular');
    await keys.change('user:regular', { plan: 'five-a-minute' });
    const soon = Math.floor(Date.now() / 1_000) + 3 * 86_400 + 100;
    await createFurtherKeyClient(keys, 'regular').create({ name: 'nightly job', expires_at: soon });
    await keys.infer(key);
    await using console = await openConsole();
    const { page } = console;
    await console.goTo('overview');
    await console.signIn('regular');
    const limits = page.getByRole('region', { name: 'Limits, highest in the last hour' });
    await limits.getByText('1 of 5').waitFor();
    await limits.getByText(/Requests at once\s*1, no limit/).waitFor(); // what was highest is noted every ten seconds
    await page.getByText(/^"nightly job" expires in 3 d /).waitFor();
    await page.getByRole('region', { name: 'Requests', exact: true }).getByText('1', { exact: true }).waitFor();
    await page.getByText('Show as a table').click();
    await page
      .getByRole('table', { name: 'Requests by outcome, each hour' })
      .getByRole('row')
      .last()
      .getByRole('cell', { name: '1', exact: true })
      .waitFor();
    const chart = page.getByRole('application', { name: /^Requests by outcome, each hour/ });
    await chart.focus();
    await page.keyboard.press('End');
    await page
      .getByRole('status')
      .getByText(/completed 1/)
      .waitFor({ state: 'attached' });
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'Requests', level: 1 }).waitFor();
    t.regex(page.url(), /#requests\?start=.*&end=/);
    await console.requireClean(t);
  },
);

const noSteps = async (page: Page) => (await page.getByRole('region', { name: 'First steps' }).count()) === 0;

browserTest('the first steps are not shown to an account that has used nothing in this month yet', async (t) => {
  const keys = createKeyClient(stack());
  t.is((await keys.infer(await keys.newKey('old-hand'))).status, 200);
  await using console = await openConsole();
  const { page } = console;
  await page.route('**/billing/quota', async (route) => {
    const response = await route.fetch();
    await route.fulfill({ response, json: { ...(await response.json()), used: 0 } });
  });
  await console.goTo('overview');
  await console.signIn('old-hand');
  await page.getByRole('region', { name: 'This month' }).getByText('This month: 0').waitFor();
  await page.getByRole('region', { name: 'Call the API' }).getByText('svc_').waitFor();
  t.true(await noSteps(page));
  await page.unrouteAll({ behavior: 'ignoreErrors' });
  await console.requireClean(t);
});

browserTest('the first steps are not shown while it is not known what was used', async (t) => {
  await createKeyClient(stack()).newKey('unknown-user');
  await using console = await openConsole();
  const { page } = console;
  console.expectFailures();
  const body = { error: 'The store is away.', code: 'SERVICE_UNAVAILABLE' };
  await page.route('**/billing/quota', (route) => route.fulfill({ status: 503, json: body }));
  await console.goTo('overview');
  await console.signIn('unknown-user');
  await page.getByText('The store is away.').waitFor();
  await page.getByRole('region', { name: 'Call the API' }).getByText('svc_').waitFor();
  t.true(await noSteps(page));
  await console.requireClean(t);
});
