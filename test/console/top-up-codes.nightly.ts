import { readFile } from 'node:fs/promises';
import test from 'ava';
import { openBrowserTests } from '../support/browser/browser-tests.ts';
import { createKeyClient } from '../support/key-client.ts';
import { createTopUpClient } from '../support/top-up-client.ts';

const tiers = { model_tiers: ['guest', 'standard'] };
const { browserTest, stack, openConsole } = openBrowserTests(test, {
  plans: {
    bounded: { tokens_per_month: 1, overage_tokens_per_month: 5_000_000, ...tiers },
    'by-operator': { tokens_per_month: 1, overage: 'operator', ...tiers },
  },
});

browserTest('an operator creates codes, which are shown once, to copy and to save, and revokes one', async (t) => {
  await using console = await openConsole();
  const { page } = console;
  await console.goTo('operators');
  await console.signIn('olga');
  await page.getByRole('link', { name: 'Top-up codes' }).click();
  await page.getByRole('heading', { name: 'Top-up codes' }).waitFor();
  await page.getByLabel('Tokens of each code').fill('250000');
  await page.getByLabel('Number of codes').fill('2');
  await page.getByLabel('Note').fill(' for the fair ');
  await page.getByLabel('Expires').fill('2099-12-31T12:00');
  await page.getByRole('button', { name: 'Create' }).click();
  await page.getByRole('heading', { name: '2 new codes, 250,000 tokens each' }).waitFor();
  t.is(await page.evaluate('document.activeElement.innerText'), '2 new codes, 250,000 tokens each');
  t.is(await page.getByRole('button', { name: 'Create' }).count(), 0, 'the next codes would replace these');
  const text = await page.getByRole('textbox', { name: 'New codes' }).inputValue();
  t.regex(text, /^(TOPUP(-[0-9A-Z]{5}){6}\n){2}$/);
  const saving = page.waitForEvent('download');
  await page.getByRole('button', { name: 'Save as text' }).click();
  t.is(await readFile(await (await saving).path(), 'utf8'), text);
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
  await page.getByRole('button', { name: 'Copy all' }).click();
  await page.getByText('Copied.').waitFor();
  t.is(await page.evaluate('navigator.clipboard.readText()'), text);
  await page.getByRole('button', { name: 'I have stored them' }).click();
  t.is(await page.getByRole('textbox', { name: 'New codes' }).count(), 0);
  await page.getByRole('button', { name: 'Create' }).waitFor();

  const rows = page.getByRole('region', { name: 'Top-up codes, newest first' }).locator('tbody tr');
  const mine = rows.filter({ hasText: 'for the fair' });
  await mine.nth(1).waitFor();
  t.deepEqual(await mine.locator('.state').allInnerTexts(), ['unused', 'unused']);
  const keys = createKeyClient(stack());
  const [first = '', second = ''] = text.trim().split('\n');
  t.is((await createTopUpClient(keys).redeem('fair-guest', first)).status, 200);
  await page.getByLabel('Show').selectOption('redeemed codes');
  await page.getByRole('link', { name: 'user:fair-guest' }).waitFor();
  t.is(page.url(), `${console.url}#top-up-codes?redeemed`);
  await page.getByLabel('Show').selectOption('unused codes');
  await page.getByRole('link', { name: 'user:fair-guest' }).waitFor({ state: 'detached' });
  await mine.getByRole('button', { name: /^Revoke tuc_/ }).click();
  await page.getByRole('dialog').getByText('250,000 tokens: for the fair').waitFor();
  await page.getByRole('dialog').getByRole('button', { name: 'Revoke' }).click();
  await mine.first().waitFor({ state: 'detached' });
  t.is((await createTopUpClient(keys).redeem('fair-guest', second)).status, 409);
  await page.getByLabel('Show').selectOption('revoked codes');
  await mine
    .getByText(/ by user:olga$/)
    .last()
    .waitFor();
  await page.goBack();
  t.is(await page.getByLabel('Show').inputValue(), 'unused');
  await console.requireClean(t);
});

browserTest('errors of the form are at its fields', async (t) => {
  await using console = await openConsole();
  const { page } = console;
  console.expectFailures();
  await console.goTo('top-up-codes');
  await console.signIn('olga');
  await page.getByLabel('Tokens of each code').fill('9000000000000');
  const expires = page.getByLabel('Expires');
  await expires.fill('12026-01-01T12:00');
  await page.getByRole('button', { name: 'Create' }).click();
  t.true(await expires.evaluate((field) => field.matches(':invalid')), 'it would be sent as null, which is never');
  t.is(await page.locator('.failure').count(), 0);
  await expires.fill('2001-01-01T12:00');
  await page.getByRole('button', { name: 'Create' }).click();
  await page.locator('[aria-invalid]').first().waitFor();
  t.true(await page.getByLabel('Tokens of each code').evaluate((field) => field.hasAttribute('aria-invalid')));
  t.false(await page.getByLabel('Number of codes').evaluate((field) => field.hasAttribute('aria-invalid')));
  await console.requireClean(t);
});

browserTest('a person redeems a code and turns overage on, which shows in the quota at once', async (t) => {
  const keys = createKeyClient(stack());
  const client = createTopUpClient(keys);
  const key = await keys.newKey('saver');
  await keys.change('user:saver', { plan: 'bounded' });
  await keys.infer(key);
  t.is((await keys.infer(key)).status, 402);
  const [code, used] = await client.create({ tokens: 70_000, count: 2 });
  await client.redeem('another-saver', used?.code ?? '');
  await using console = await openConsole();
  const { page } = console;
  await console.goTo('usage');
  await console.signIn('saver');
  await page.getByText('The allowance is used up: requests get 402').waitFor();
  await page.getByRole('button', { name: 'Turn overage on' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Up to the limit of the plan: 5,000,000 tokens').check();
  await dialog.getByRole('button', { name: 'Turn overage on' }).click();
  await page.getByText('Overage is on. Applies from your next request.').waitFor();
  await page.getByRole('button', { name: 'Turn overage off' }).waitFor();
  t.is(await page.locator('[data-figure=overage]').innerText(), 'on, 0 of 5,000,000 used');
  t.is((await keys.infer(key)).status, 200);
  await page.getByRole('button', { name: 'Turn overage off' }).click();
  await page.getByText('Overage is off. Applies from your next request.').waitFor();
  t.is((await keys.infer(key)).status, 402);

  const field = page.getByLabel('Code', { exact: true });
  await field.fill(code?.code.toLowerCase() ?? '');
  await page.getByRole('button', { name: 'Redeem' }).click();
  await page.getByText('The code is redeemed. Top-ups of this month: 70,000 tokens.').waitFor();
  t.is(await field.inputValue(), '');
  await page.locator('[data-figure=topUp]', { hasText: '70,000' }).waitFor();
  t.is((await keys.infer(key)).status, 200);

  console.expectFailures();
  await field.fill('TOPUP-1234');
  await page.getByRole('button', { name: 'Redeem' }).click();
  await page.getByText('expected a code like TOPUP-').first().waitFor();
  t.true(await field.evaluate((input) => input.hasAttribute('aria-invalid')));
  await field.fill(used?.code ?? '');
  await page.getByRole('button', { name: 'Redeem' }).click();
  await page.getByText('Another account has redeemed this code.').waitFor();
  await console.requireClean(t);
});

browserTest('on a plan that leaves overage to operators, the page says so and has no button', async (t) => {
  const keys = createKeyClient(stack());
  await keys.change('user:asker', { plan: 'by-operator' });
  await using console = await openConsole();
  const { page } = console;
  await console.goTo('usage');
  await console.signIn('asker');
  await page.getByText('On your plan, the operator of this service turns overage on and off.').waitFor();
  t.is(await page.getByRole('button', { name: 'Turn overage on' }).count(), 0);
  await page
    .locator('.facts div', { hasText: 'Overage is turned on by' })
    .getByText('the operator', { exact: true })
    .waitFor();
  await console.requireClean(t);
});

browserTest('a refusal to turn overage on is shown as text', async (t) => {
  const keys = createKeyClient(stack());
  await keys.change('user:late-asker', { plan: 'bounded' });
  await using console = await openConsole();
  const { page } = console;
  await console.goTo('usage');
  await console.signIn('late-asker');
  const button = page.getByRole('button', { name: 'Turn overage on' });
  await button.waitFor();
  await keys.change('user:late-asker', { plan: 'by-operator' });
  console.expectFailures();
  await button.click();
  await page.getByRole('dialog').getByRole('button', { name: 'Turn overage on' }).click();
  await page
    .getByText('On the plan "by-operator", overage is turned on and off by the operator of this service.')
    .waitFor();
  await console.requireClean(t);
});
