import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { isDeepStrictEqual } from 'node:util';
import test, { type ExecutionContext } from 'ava';
import type { Page } from 'playwright-core';
import { openBrowserTests } from '../support/browser/browser-tests.ts';
import { createKeyClient, masked } from '../support/key-client.ts';
import { readCsv } from '../support/report-side.ts';

const { browserTest, stack, openConsole } = openBrowserTests(test);

browserTest('an operator finds an account and changes its plan, which applies to the next request', async (t) => {
  const keys = createKeyClient(stack());
  const key = await keys.newKey('customer');
  t.like(await keys.infer(key, 'large-chat'), { status: 429, type: 'plan_limit' });
  await using console = await openConsole();
  const { page } = console;
  await console.goTo('accounts');
  await console.signIn('olga');
  await page.getByLabel('Account', { exact: true }).fill('custom');
  await page.getByRole('button', { name: 'Find', exact: true }).click();
  await page.getByRole('link', { name: 'user:customer' }).click();
  await page.getByRole('heading', { name: 'user:customer' }).waitFor();
  t.is(page.url(), `${console.url}#accounts/user%3Acustomer`);
  await page.goBack();
  t.is(await page.getByLabel('Account', { exact: true }).inputValue(), 'user:custom', 'the search text is restored');
  await page.getByRole('link', { name: 'user:customer' }).click();

  const button = (name: string) => page.getByRole('button', { name, exact: true });
  const dialog = page.getByRole('dialog');
  const confirm = (name: string) => dialog.getByRole('button', { name, exact: true }).click();
  const reason = 'Reason (for the audit trail)';
  await button('Change the plan').click();
  await dialog.getByLabel('Plan of the account').selectOption('pro');
  await dialog.getByLabel(reason).fill(' Signed the contract. ');
  await confirm('Change the plan');
  await page.getByText('The plan is pro now. It applies from the next request.').waitFor();
  t.is((await keys.infer(key, 'large-chat')).status, 200);

  await button('Top up').click();
  await dialog.getByLabel('Tokens to add').fill('12345');
  await dialog.getByLabel('ID (applied once)').fill('invoice-7');
  await dialog.getByLabel(reason).fill('paid');
  await confirm('Top up');
  await page.getByText('12,345 tokens were added to this month.').waitFor();
  t.is(await button('Undo').count(), 0, 'added tokens cannot be taken back');
  await button('Turn overage on').click();
  await dialog.getByLabel(reason).fill('asked for it');
  await confirm('Turn overage on');
  await button('Turn overage off').waitFor();
  const { body } = await keys.send('GET', '/billing/quota', { bearer: key });
  t.like(body, { topUp: 12_345, overageEnabled: true, plan: 'pro' });

  await button('Suspend').click();
  const centre = await dialog.evaluate((element) => {
    const { top, bottom } = element.getBoundingClientRect();
    return Math.abs((top + bottom) / 2 - innerHeight / 2);
  });
  t.true(centre < 20, 'the dialog is in the middle of the window');
  await dialog.getByLabel(reason).fill('abuse');
  await confirm('Suspend');
  await button('Resume').waitFor();
  t.like(await keys.infer(key), { status: 403, code: 'FORBIDDEN' });
  await button('Undo').click();
  await button('Suspend').waitFor();
  t.is((await keys.infer(key)).status, 200);

  await page.getByRole('cell', { name: 'resumed' }).waitFor();
  t.deepEqual(await trailOn(page), [
    'user:olga: resumed: undone: 127.0.0.1',
    'user:olga: suspended: abuse: 127.0.0.1',
    'user:olga: overage on: asked for it: 127.0.0.1',
    'user:olga: topped up 12,345 tokens (invoice-7): paid: 127.0.0.1',
    'user:olga: plan free to pro: Signed the contract.: 127.0.0.1',
    'user:customer: key created: key_…: –: 127.0.0.1',
  ]);
  await console.requireClean(t);
});

browserTest('an operator sees which accounts have used most, and exports the usage of all accounts', async (t) => {
  const keys = createKeyClient(stack());
  for (const [account, requests] of Object.entries({ 'much-user': 3, 'less-user': 1 })) {
    const key = await keys.newKey(account);
    for (let count = 0; count < requests; count += 1) t.is((await keys.infer(key)).status, 200);
  }
  await using console = await openConsole();
  const { page } = console;
  await console.goTo('accounts');
  await console.signIn('olga');
  await page.getByRole('list', { name: 'Service' }).getByRole('link', { name: 'Usage' }).click();
  await page.getByRole('heading', { name: 'Usage of all accounts' }).waitFor();
  const table = page.getByRole('region', { name: /^By account; most tokens charged first/ });
  const accounts = async () =>
    (await table.isVisible()) ? (await table.locator('tbody th').allInnerTexts()).map((text) => text.trim()) : [];
  const requestsOf = async (account: string) =>
    (await table.locator('tbody tr', { has: page.getByRole('link', { name: account, exact: true }) }).allInnerTexts())
      .map((row) => row.split('\t')[1])
      .join();
  while (!((await requestsOf('user:much-user')) === '3' && (await requestsOf('user:less-user')) === '1')) {
    await page.getByRole('button', { name: 'Refresh' }).click();
    await page.waitForTimeout(200);
  }
  const found = await accounts();
  t.true(found.indexOf('user:much-user') < found.indexOf('user:less-user'));
  await page.getByRole('checkbox', { name: 'model' }).check();
  const [file] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('button', { name: 'Export as CSV' }).click(),
  ]);
  const rows = readCsv(await readFile(await file.path(), 'utf8'));
  t.like(
    rows.find(({ account }) => account === 'user:much-user'),
    { model: 'small-chat', requests: '3' },
  );
  await page.getByRole('radio', { name: 'model' }).check();
  await page.getByRole('region', { name: /^By model/ }).waitFor();
  await page.locator('.chart').waitFor();
  await page.getByRole('radio', { name: 'account' }).check();
  await page.getByRole('link', { name: 'user:much-user' }).first().click();
  await page.getByRole('heading', { name: 'user:much-user' }).waitFor();
  await console.requireClean(t);
});

browserTest('an operator can read the audit trail of an account beyond its first page', async (t) => {
  const keys = createKeyClient(stack());
  for (let tokens = 1; tokens <= 45; tokens++) {
    await keys.change('user:busy', { topUp: { id: `id-${tokens}`, tokens }, reason: `number ${tokens}` });
  }
  await using console = await openConsole();
  const { page } = console;
  await console.goTo('accounts/user%3Abusy');
  await console.signIn('olga');
  for (const last of [26, 6, 1]) {
    await page.getByRole('cell', { name: `number ${last}`, exact: true }).waitFor();
    t.is((await trailOn(page)).length, 46 - last);
    if (last > 1) await page.getByRole('button', { name: 'Show more' }).click();
  }
  t.is(await page.getByRole('button', { name: 'Show more' }).count(), 0);
  await console.requireClean(t);
});

browserTest('an operator reads the changes of all accounts, of one account, and by one operator', async (t) => {
  const keys = createKeyClient(stack());
  const bearer = await keys.token('otto', true);
  const change = (account: string, body: object) => keys.send('PATCH', `/admin/accounts/${account}`, { bearer, body });
  await change('user:trail-a', { plan: 'pro', reason: 'why a' });
  await change('user:trail-b', { suspended: true, reason: 'why b' });
  await using console = await openConsole();
  const { page } = console;
  await console.goTo('accounts');
  await console.signIn('olga');
  await page.getByRole('link', { name: 'Audit trail' }).click();
  await page.getByRole('heading', { name: 'Audit trail' }).waitFor();
  await page.getByRole('region', { name: 'Changes, newest first' }).waitFor();

  const show = () => page.getByRole('button', { name: 'Show', exact: true }).click();
  const reason = (text: string) => page.getByRole('cell', { name: text, exact: true });
  await page.getByLabel('Changed by').fill('otto');
  await show();
  const [ofA, ofB] = ['user:trail-a: plan free to pro: why a', 'user:trail-b: suspended: why b'];
  await assertTrail(t, page, [`user:otto: ${ofB}: 127.0.0.1`, `user:otto: ${ofA}: 127.0.0.1`]);
  await page.getByLabel('Account', { exact: true }).fill('trail-a');
  await show();
  await reason('why b').waitFor({ state: 'detached' });
  await reason('why a').waitFor();
  t.is(page.url(), `${console.url}#audit?account=user%3Atrail-a&actor=user%3Aotto`);

  await page.getByLabel('Last day (UTC)').fill('2020-01-31');
  await show();
  await page.getByText('There are no changes.').waitFor();
  await page.goBack();
  await reason('why a').waitFor();

  await page.getByLabel('Changed by').fill('user:unknown');
  await show();
  await page.getByText('There are no changes.').waitFor();
  await page.goBack();
  await reason('why a').waitFor();
  t.is(await page.getByLabel('Changed by').inputValue(), 'user:otto');
  await change('user:trail-a', { overageEnabled: true, reason: 'why not' });
  await show();
  await reason('why not').waitFor();

  await page.getByRole('link', { name: 'user:trail-a' }).first().click();
  await page.getByRole('heading', { name: 'user:trail-a' }).waitFor();
  await reason('why a').waitFor();
  await console.requireClean(t);
});

browserTest('operators begin at the service, and go on by keyboard', async (t) => {
  const keys = createKeyClient(stack());
  t.is((await keys.infer(await keys.newKey('home-user'))).status, 200);
  await using console = await openConsole();
  const { page } = console;
  await console.goTo('');
  await console.signIn('olga');
  await page.getByRole('heading', { name: 'Service', exact: true }).waitFor();
  await page.getByText(/^updated (now|\d+ s ago)$/).waitFor();
  await page
    .getByRole('region', { name: 'Requests', exact: true })
    .getByText(/ in 1 h$/)
    .waitFor();
  await page.getByText('7 days', { exact: true }).click();
  await page
    .getByRole('region', { name: 'Requests', exact: true })
    .getByText(/ in 7 days$/)
    .waitFor();

  const cell = page.getByRole('button', { name: /^\S+ for small-chat: answers/ }).first();
  await cell.focus();
  await page.keyboard.press('Enter');
  await page.getByRole('dialog').getByText('None in the last hour.').waitFor();
  await page.keyboard.press('Escape');
  await page.getByRole('dialog').waitFor({ state: 'detached' });

  await page.keyboard.press('?');
  await page.getByRole('dialog', { name: 'Keyboard shortcuts' }).waitFor();
  await page.keyboard.press('Escape');
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  await page.keyboard.press('g');
  await page.keyboard.press('o');
  await page.getByRole('heading', { name: 'Overview', exact: true }).waitFor();
  t.is(await page.getByRole('heading', { name: 'First steps' }).count(), 0);

  await page.keyboard.press('Control+k');
  await page.getByRole('dialog').getByRole('combobox').fill('change plan of');
  await page.keyboard.press('Enter');
  await page.getByRole('dialog').getByRole('combobox').fill('home-us');
  await page.getByRole('option', { name: 'user:home-user' }).waitFor();
  await page.keyboard.press('Enter');
  await page.getByRole('dialog', { name: 'Change the plan' }).getByText('user:home-user').waitFor();
  t.is(page.url(), `${console.url}#accounts/user%3Ahome-user?plan`);
  await console.requireClean(t);
});

browserTest('a user who is no operator sees no operator page, and the address explains why', async (t) => {
  await using console = await openConsole();
  const { page } = console;
  await console.goTo('accounts');
  await console.signIn('visitor');
  await page.getByText('your account is not one of them').waitFor();
  t.is(await page.getByRole('link', { name: 'Accounts' }).count(), 0);
  await console.requireClean(t);
});

browserTest('an operator revokes a key of an account, and cannot revoke that of a device', async (t) => {
  const keys = createKeyClient(stack());
  const key = await keys.newKey('leaker');
  t.is((await keys.models(key)).status, 200);
  await using console = await openConsole();
  const { page } = console;
  await console.goTo('accounts/user%3Aleaker');
  await console.signIn('olga');
  await page.getByRole('button', { name: `Revoke default, ${masked(key)}` }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByText(masked(key)).waitFor();
  await dialog.getByLabel('Reason (for the audit trail)').fill('It is in a public repository.');
  await dialog.getByRole('button', { name: 'Revoke the key' }).click();
  await page.getByText(`The key ${masked(key)} was revoked.`).waitFor();
  await page.getByRole('region', { name: 'Keys of the account' }).getByText('revoked').waitFor();
  t.is((await keys.models(key)).status, 401);
  t.is(await page.getByRole('button', { name: /^Revoke / }).count(), 0);
  await page.getByRole('cell', { name: 'It is in a public repository.' }).waitFor();
  t.deepEqual(await trailOn(page), [
    'user:olga: key revoked: key_…: It is in a public repository.: 127.0.0.1',
    'user:leaker: key created: key_…: –: 127.0.0.1',
  ]);

  const device = 'device-of-a-leaker';
  t.is((await keys.guest(device)).status, 200);
  const account = `device:${createHash('sha256').update(device).digest('hex')}`;
  await console.goTo(`accounts/${encodeURIComponent(account)}`);
  await page.getByRole('region', { name: 'Keys of the account' }).getByText('active').waitFor();
  t.is(await page.getByRole('button', { name: /^Revoke / }).count(), 0);
  await console.requireClean(t);
});

browserTest('an operator removes an account after a confirmation, and its audit trail stays', async (t) => {
  const keys = createKeyClient(stack());
  const key = await keys.newKey('leaver');
  await using console = await openConsole();
  const { page } = console;
  console.expectFailures();
  await console.goTo('accounts/user%3Aleaver');
  await console.signIn('olga');
  await page.getByRole('button', { name: 'Remove', exact: true }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByText('This cannot be undone.').waitFor();
  t.is((await keys.models(key)).status, 200, 'nothing happens before the confirmation');
  await dialog.getByLabel('Reason (for the audit trail)').fill('Asked for it.');
  await dialog.getByRole('button', { name: 'Remove the account' }).click();
  await page.getByText('The account was removed.').waitFor();
  t.is((await keys.models(key)).status, 401);
  await page.getByText('This account has no key and no changes yet').waitFor();
  t.is(await page.getByRole('button', { name: 'Remove', exact: true }).count(), 0);
  await assertTrail(t, page, [
    'user:olga: account removed: Asked for it.: 127.0.0.1',
    'user:leaver: key created: key_…: –: 127.0.0.1',
  ]);
  await console.requireClean(t);
});

/** The rows of the audit trail, each without its time, and ids of keys shortened. */
async function trailOn(page: Page): Promise<string[]> {
  const rows = await page.getByRole('region', { name: 'Changes, newest first' }).locator('tbody tr').allInnerTexts();
  return rows.map((row) =>
    row
      .split('\t')
      .slice(1)
      .map((cell) => cell.trim())
      .join(': ')
      .replaceAll(/\s*key_[^\s:]+/g, ' key_…'),
  );
}

/** Waits until the trail is this one: what was shown before may stay until its page has loaded. */
async function assertTrail(t: ExecutionContext, page: Page, expected: readonly string[]): Promise<void> {
  const until = performance.now() + 30_000;
  let shown = await trailOn(page);
  while (!isDeepStrictEqual(shown, expected) && performance.now() < until) shown = await trailOn(page);
  t.deepEqual(shown, expected);
}
