import test from 'ava';
import { openBrowserTests } from '../support/browser/browser-tests.ts';
import { createKeyClient } from '../support/key-client.ts';

const { browserTest, stack, openConsole } = openBrowserTests(test);

browserTest('an operator finds an account and changes its plan, and its next request feels it', async (t) => {
  const keys = createKeyClient(stack());
  const key = await keys.newKey('customer');
  t.like(await keys.infer(key, 'large-chat'), { status: 429, type: 'plan_limit' });
  await using console = await openConsole();
  const { page } = console;
  await console.goTo('operators');
  await console.signIn('olga');
  await page.getByLabel('Account', { exact: true }).fill('custom');
  await page.getByRole('button', { name: 'Find' }).click();
  await page.getByRole('link', { name: 'user:customer' }).click();
  await page.getByRole('heading', { name: 'user:customer' }).waitFor();
  t.is(page.url(), `${console.url}#operators/user%3Acustomer`);
  await page.goBack();
  t.is(
    await page.getByLabel('Account', { exact: true }).inputValue(),
    'user:custom',
    'what was looked for is there again',
  );
  await page.getByRole('link', { name: 'user:customer' }).click();

  await page.getByLabel('Plan of the account').selectOption('pro');
  await page.getByRole('button', { name: 'Change the plan' }).click();
  await page.getByText('It counts on the next request').waitFor();
  t.is((await keys.infer(key, 'large-chat')).status, 200);

  await page.getByLabel('Tokens to add').fill('12345');
  await page.getByLabel('Id, which counts once').fill('invoice-7');
  await page.getByRole('button', { name: 'Top up' }).click();
  await page.getByText('12,345 tokens').first().waitFor();
  await page.getByRole('button', { name: 'Switch overage on' }).click();
  await page.getByRole('button', { name: 'Switch overage off' }).waitFor();
  const { body } = await keys.send('GET', '/billing/quota', { bearer: key });
  t.like(body, { topUp: 12_345, overageEnabled: true, plan: 'pro' });

  await page.getByRole('button', { name: 'Suspend' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Suspend' }).click();
  await page.getByRole('button', { name: 'Let it go on' }).waitFor();
  t.like(await keys.infer(key), { status: 403, code: 'FORBIDDEN' });
  await page.getByRole('button', { name: 'Let it go on' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Let it go on' }).click();
  await page.getByRole('button', { name: 'Suspend' }).waitFor();
  t.is((await keys.infer(key)).status, 200);

  const trail = await page.getByRole('region', { name: 'Changes, newest first' }).locator('tbody tr').allInnerTexts();
  t.deepEqual(
    trail.map((row) =>
      row
        .split('\t')
        .slice(1)
        .join(': ')
        .replace(/key_\w+/, 'key_…'),
    ),
    [
      'user:olga: let go on',
      'user:olga: suspended',
      'user:olga: overage on',
      'user:olga: topped up 12,345 tokens (invoice-7)',
      'user:olga: plan free to pro',
      'user:customer: minted key_…',
    ],
  );
  await console.requireClean(t);
});

browserTest('an operator finds a device by the id that it sends', async (t) => {
  const keys = createKeyClient(stack());
  t.is((await keys.guest('device-of-a-guest')).status, 200);
  await using console = await openConsole();
  const { page } = console;
  await console.goTo('operators');
  await console.signIn('olga');
  await page.getByLabel('Find by').selectOption('device id');
  await page.getByRole('searchbox', { name: 'Device id' }).fill('device-of-a-guest');
  await page.getByRole('button', { name: 'Find' }).click();
  await page.getByRole('heading', { name: /^device:[0-9a-f]{64}$/ }).waitFor();
  await page.getByText('guest-device').first().waitFor();

  console.expectFailures();
  await console.goTo('operators/device%3Anone');
  await page.getByText('There is no such account.').waitFor();
  await console.requireClean(t);
});

browserTest('whoever has signed in and has no key yet can be given a plan by name', async (t) => {
  await using console = await openConsole();
  const { page } = console;
  console.expectFailures();
  await console.goTo('operators/user%3Anewcomer');
  await console.signIn('olga');
  await page.getByText('This account has had no key and no change yet').waitFor();
  await page.getByLabel('Plan of the account').selectOption('pro');
  await page.getByRole('button', { name: 'Change the plan' }).click();
  await page.getByRole('region', { name: 'Changes, newest first' }).waitFor();
  const keys = createKeyClient(stack());
  t.is((await keys.infer(await keys.newKey('newcomer'), 'large-chat')).status, 200);
  await console.requireClean(t);
});

browserTest('who is no operator sees no page of theirs, and is told why by its address', async (t) => {
  await using console = await openConsole();
  const { page } = console;
  await console.goTo('operators');
  await console.signIn('visitor');
  await page.getByText('it needs a sign-in with the scope svc:admin').waitFor();
  t.is(await page.getByRole('link', { name: 'Operators' }).count(), 0);
  await console.requireClean(t);
});
