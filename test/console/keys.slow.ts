import test from 'ava';
import OpenAI from 'openai';
import type { Page } from 'playwright-core';
import { openBrowserTests } from '../support/browser/browser-tests.ts';
import { createFurtherKeyClient } from '../support/further-key-client.ts';
import { createKeyClient, masked } from '../support/key-client.ts';

const { browserTest, stack, openConsole } = openBrowserTests(test);

const models = (apiKey: string) =>
  new OpenAI({ baseURL: `${stack().baseUrl}/v1`, apiKey, maxRetries: 0 }).models.list().then(
    ({ data }) => data.length,
    (error: { status: number; code: string }) => error.status,
  );

const keysOf = (account: string) => createFurtherKeyClient(createKeyClient(stack()), account);
/** The row of a key, by a part of its name. */
const rowOf = (page: Page, name: string) => page.locator('tbody tr').filter({ hasText: name });
const button = (page: Page, name: string) => page.getByRole('button', { name, exact: true });
const focused = (page: Page) => page.evaluate<string>('document.activeElement.innerText');

/** Creates a key without settings, with the dialog. */
async function createHere(page: Page, name: string): Promise<void> {
  await button(page, 'Create a key').click();
  await page.getByRole('dialog').getByLabel('Name').fill(name);
  await page.getByRole('dialog').getByRole('button', { name: 'Create' }).click();
}

/** Waits until the dialog is gone: closed, it has no role before it is removed. */
const dialogGone = (page: Page) => page.locator('dialog').waitFor({ state: 'detached' });

/**
 * Shows that keys were last used at this time. Uses are stored twice a minute: what a list shows of a use a moment ago depends on when it
 * is read, and so does whether revoking asks for the name of the key.
 */
async function showUses(page: Page, at: number | null): Promise<void> {
  await page.route('**/v1/keys', async (route) => {
    if (route.request().method() !== 'GET') return route.continue();
    const response = await route.fetch();
    const list = (await response.json()) as { data: { last_used_at: number | null }[] };
    for (const each of list.data) each.last_used_at = at;
    await route.fulfill({ response, json: list });
  });
}

async function bodiesOf(page: Page, method: string, send: () => Promise<void>): Promise<unknown[]> {
  const bodies: unknown[] = [];
  page.on('request', (request) => request.method() === method && bodies.push(request.postDataJSON()));
  await send();
  return bodies;
}

browserTest('a key is created with settings, shown once, copied, tried out and stored nowhere', async (t) => {
  await using console = await openConsole();
  const { page } = console;
  await console.goTo('keys?new');
  await console.signIn('creator');
  await page.getByText('You have no key. Create one to call the API.').waitFor();
  const dialog = page.getByRole('dialog', { name: 'Create a key' });
  await dialog.getByRole('button', { name: 'Go back' }).click();
  await page.waitForURL(/#keys$/);
  await button(page, 'Create a key').click();
  await dialog.getByLabel('Name').fill('nightly import');
  await page.setViewportSize({ width: 1280, height: 800 });
  await dialog.getByText('Restrict this key').click();
  t.true(await dialog.getByRole('button', { name: 'Create' }).isVisible());
  const lowest = await dialog.getByRole('button', { name: 'Create' }).boundingBox();
  t.true((lowest?.y ?? 0) + (lowest?.height ?? 0) < 800, 'the button is in sight');
  await dialog.getByLabel('30 days').check();
  await dialog.getByText(/^On \d+ \w+ \d+, \d\d:\d\d\.$/).waitFor();
  await dialog.getByLabel('a date').check();
  await dialog.getByLabel('Expires on').fill('2099-01-31T18:00');
  const endpoints = dialog.getByRole('group', { name: 'Endpoints' });
  await endpoints.getByLabel('Only these').check();
  await endpoints.getByLabel('/v1/chat/completions').check();
  const choice = dialog.getByRole('group', { name: 'Models' });
  await choice.getByLabel('Only these').check();
  await choice.getByLabel('medium-chat').check();
  await dialog.getByLabel('Allowed addresses').fill('127.0.0.0/8\n::1');
  await dialog.getByLabel('Tokens per minute').fill('5000');
  const files = dialog.getByRole('group', { name: 'Files and batches' });
  t.true(await files.getByLabel('its own', { exact: true }).isChecked(), 'as endpoints and models say');
  await files.getByLabel('none').check();
  const create = dialog.getByRole('button', { name: 'Create' });
  const sent = await bodiesOf(page, 'POST', async () => {
    await create.dblclick();
    await page.locator('code.key').waitFor();
  });
  t.deepEqual(sent, [
    {
      name: 'nightly import',
      expires_at: await page.evaluate('new Date("2099-01-31T18:00").getTime() / 1000'),
      endpoints: ['/v1/chat/completions'],
      models: ['medium-chat'],
      allowed_ips: ['127.0.0.0/8', '::1'],
      limits: { tokens_per_minute: 5000 },
      files: 'none',
    },
  ]);

  await dialogGone(page);
  const shown = page.locator('code.key');
  const key = await shown.innerText();
  t.regex(key, /^svc_[0-9A-Za-z]{38}$/);
  t.is(await models(key), 1);
  t.true(await page.getByText('It is shown only once and cannot be recovered.').isVisible());
  await page.waitForFunction('document.activeElement.tagName === "H2"');
  t.is(await focused(page), 'Your new key "nightly import"');
  t.regex(
    await rowOf(page, 'nightly import').innerText(),
    /active\s+31 Jan 2099, 18:00\s+never used\s+0\s+requests, 0\s+tokens/,
  );

  await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
  await button(page, 'Copy').click();
  await page.getByText('Copied.').waitFor();
  t.is(await page.evaluate('navigator.clipboard.readText()'), key);

  await button(page, 'Try it').click();
  await page.getByText(/^Your new key ".*" is used\./).waitFor();
  const offered = page.getByRole('combobox', { name: 'Model', exact: true }).locator('option');
  t.deepEqual(await offered.allInnerTexts(), ['medium-chat'], 'what the key may use');
  await page.getByRole('button', { name: 'Send' }).click();
  await page.getByText('The answer is complete.').waitFor();
  t.is(page.url(), `${console.url}#try-it`);
  await console.requireClean(t);

  await page.getByRole('link', { name: 'Keys' }).click();
  t.is(await shown.innerText(), key, 'it is shown until it is dismissed');
  await button(page, 'I have stored it').click();
  await shown.waitFor({ state: 'detached' });
  await page.getByRole('link', { name: 'Try it' }).click();
  t.is(await page.getByLabel('API key').inputValue(), key, 'it is kept while the console is open');
  await page.reload();
  await page.getByRole('button', { name: 'Use another key' }).click();
  t.is(await page.getByLabel('API key').inputValue(), '', 'and lost with a reload');
  t.deepEqual(await offered.allInnerTexts(), ['small-chat', 'medium-chat']);
  await console.requireClean(t);
});

browserTest('a key is created, rotated with and without a grace, and revoked', async (t) => {
  await using console = await openConsole();
  const { page } = console;
  await showUses(page, null);
  await console.goTo('keys');
  await console.signIn('minter');
  await createHere(page, 'default');
  const shown = page.locator('code.key');
  const first = await shown.innerText();
  t.is(await models(first), 2);
  await rowOf(page, 'default').waitFor();

  const rotate = page.getByRole('button', { name: 'Rotate default' });
  const dialog = page.getByRole('dialog', { name: 'Rotate this key?' });
  await rotate.click();
  t.true((await dialog.innerText()).includes(`default (${masked(first)}) gets a successor`));
  await dialog.getByRole('button', { name: 'Go back' }).click();
  await dialogGone(page);
  t.is(await focused(page), 'Rotate', 'the focus returns to where it was');
  t.is((await keysOf('minter').list()).length, 1, 'an unconfirmed action is not executed');

  await rotate.click();
  await dialog.getByLabel('1 hour').check();
  await dialog.getByText('The old key works for 1 hour more').waitFor();
  await dialog.getByRole('button', { name: 'Rotate' }).click();
  await page.getByText(first).waitFor({ state: 'detached' });
  const second = await shown.innerText();
  t.not(second, first);
  for (const key of [first, second]) t.is(await models(key), 2);
  const inGrace = rowOf(page, masked(first));
  await inGrace.getByText(/^59 min \d+ s left$/).waitFor();
  const [left = ''] = /\d+ min \d+ s left/.exec(await inGrace.innerText()) ?? [];
  await inGrace.getByText(left, { exact: true }).waitFor({ state: 'detached' }); // it counts down

  await page.getByRole('button', { name: `Revoke default, ${masked(second)}` }).click();
  await page.getByRole('dialog').getByText('Then only the old key').waitFor();
  await page.getByRole('dialog').getByRole('button', { name: 'Go back' }).click();
  await dialogGone(page);
  await page.getByRole('button', { name: `Revoke default, ${masked(first)}` }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Revoke' }).click();
  await inGrace.getByText('revoked').waitFor();
  t.is(await models(first), 401);

  await rotate.click();
  await dialog.getByLabel('none').check();
  await dialog.getByText('The old key stops working everywhere, immediately').waitFor();
  await dialog.getByRole('button', { name: 'Rotate' }).click();
  await page.getByText(second).waitFor({ state: 'detached' });
  const third = await shown.innerText();
  t.is(await models(second), 401);
  t.is(await models(third), 2);

  await rowOf(page, masked(third)).getByText('active').waitFor(); // before that, the button is of the second key
  await page.getByRole('button', { name: 'Revoke default' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Revoke' }).click();
  await page.getByText('You have no active key').waitFor();
  t.is(await models(third), 401);
  await shown.waitFor({ state: 'detached' });
  t.deepEqual((await page.locator('tbody .state').allInnerTexts()).toSorted(), ['revoked', 'revoked', 'rotated']);
  await console.requireClean(t);
});

browserTest('a key is edited: only what was changed is sent', async (t) => {
  const created = await keysOf('editor').create({
    name: 'website',
    models: ['small-chat'],
    allowed_ips: ['192.0.2.1'],
  });
  await using console = await openConsole();
  const { page } = console;
  await console.goTo('keys');
  await console.signIn('editor');
  await page.getByRole('button', { name: 'Edit website' }).click();
  const dialog = page.getByRole('dialog', { name: 'Edit "website"' });
  t.is(await dialog.getByLabel('Name').inputValue(), 'website');
  t.is(await dialog.getByLabel('Allowed addresses').inputValue(), '192.0.2.1');
  t.true(await dialog.getByLabel('small-chat').isChecked());
  await dialog.getByLabel('Name').fill('new website');
  await dialog.getByLabel('Allowed addresses').fill('');
  await dialog.getByLabel('Requests per minute').fill('7');
  const sent = await bodiesOf(page, 'PATCH', async () => {
    await dialog.getByRole('button', { name: 'Save' }).click();
    await dialogGone(page);
  });
  t.deepEqual(sent, [{ name: 'new website', allowed_ips: null, limits: { requests_per_minute: 7 } }]);
  await rowOf(page, 'new website').waitFor();
  t.like((await keysOf('editor').get(created.id)).body, {
    name: 'new website',
    models: ['small-chat'],
    allowed_ips: null,
    limits: { requests_per_minute: 7, tokens_per_minute: null, tokens_per_month: null },
  });
  await console.requireClean(t);
});

browserTest(
  'an error of the API is shown at its field, which gets the focus, and the form keeps what was typed',
  async (t) => {
    await using console = await openConsole();
    const { page } = console;
    await console.goTo('keys');
    await console.signIn('careless');
    await button(page, 'Create a key').click();
    const dialog = page.getByRole('dialog');
    const name = dialog.getByLabel('Name');
    const create = dialog.getByRole('button', { name: 'Create' });
    const addresses = dialog.getByLabel('Allowed addresses');
    await create.click();
    t.true(await page.evaluate('document.activeElement.validity.valueMissing'), 'the browser asks for the name');
    await name.fill('import');
    await dialog.getByText('Restrict this key').click();
    await addresses.fill('192.0.2.1\nnonsense');
    const models = dialog.getByRole('group', { name: 'Models' });
    await models.getByLabel('Only these').check();
    console.expectFailures();
    await create.click();
    await models.getByText('expected at least one entry').waitFor();
    await dialog.getByText('entry 2: expected an IP address or a range in CIDR notation', { exact: true }).waitFor();
    t.is(await dialog.locator('.failure').count(), 0, 'the fields say all of it');
    t.is(await page.evaluate('document.activeElement.type'), 'radio', 'the first of them has the focus');
    t.is(await addresses.getAttribute('aria-invalid'), 'true');

    await models.getByLabel('medium-chat').check();
    await addresses.fill('192.0.2.1');
    await dialog.getByLabel('a date').check();
    await dialog.getByLabel('Expires on').fill('2020-01-01T00:00');
    await create.click();
    await dialog.getByText('expected a time that has not passed', { exact: true }).waitFor();
    await page.waitForFunction('document.activeElement.type === "datetime-local"');
    t.is(await addresses.getAttribute('aria-invalid'), null);
    await dialog.getByLabel('never').check();
    await create.click();
    await dialogGone(page);
    await rowOf(page, 'import').waitFor();
    await button(page, 'I have stored it').click();
    await console.requireClean(t);
  },
);

browserTest('a key that was used in the last day is revoked only after its name was typed', async (t) => {
  const { key, id } = await keysOf('revoker').create({ name: 'busy  worker' });
  await using console = await openConsole();
  const { page } = console;
  await showUses(page, Math.floor(Date.now() / 1000) - 86_000);
  await console.goTo('keys');
  await console.signIn('revoker');
  await page.getByRole('button', { name: 'Revoke busy' }).click();
  const dialog = page.getByRole('dialog', { name: 'Revoke this key?' });
  await dialog.getByText('This key was used in the last 24 hours.').waitFor();
  const revoke = dialog.getByRole('button', { name: 'Revoke' });
  t.true(await revoke.isDisabled());
  const name = dialog.getByLabel('Type its name to confirm');
  await name.fill('busy');
  await name.press('Enter');
  t.true(await revoke.isDisabled());
  t.is(await models(key), 2);
  await name.fill('busy worker');
  await revoke.click();
  await dialogGone(page);
  t.is((await keysOf('revoker').get(id)).body.state, 'revoked');
  await console.requireClean(t);
});

browserTest('revoking a key asks whether what it has begun ends, too', async (t) => {
  const account = keysOf('ender');
  for (const name of ['first', 'second', 'third']) await account.create({ name });
  await using console = await openConsole();
  const { page } = console;
  await showUses(page, null);
  await console.goTo('keys');
  await console.signIn('ender');
  const sent: string[] = [];
  page.on('request', (request) => request.method() === 'DELETE' && sent.push(new URL(request.url()).search));
  const dialog = page.getByRole('dialog', { name: 'Revoke this key?' });
  const ends = dialog.getByLabel('End its requests and batches');
  const revoke = async (name: string, choose: () => Promise<void>) => {
    await page.getByRole('button', { name: `Revoke ${name}` }).click();
    await dialog.waitFor();
    await choose();
    await dialog.getByRole('button', { name: 'Revoke' }).click();
    await rowOf(page, name).getByText('revoked').waitFor();
  };
  await revoke('first', () => ends.check());
  await revoke('second', () => ends.uncheck());
  await revoke('third', () => ends.waitFor());
  t.deepEqual(sent, ['?end_requests=true', '?end_requests=false', '?end_requests=true'], 'they end by default');
  await console.requireClean(t);
});

browserTest('a key changed in another tab gets the error of the API, and the table is read again', async (t) => {
  const account = keysOf('hasty');
  const created = await account.create({ name: 'shared' });
  await using console = await openConsole();
  const { page } = console;
  await console.goTo('keys');
  await console.signIn('hasty');
  await page.getByRole('button', { name: 'Rotate shared' }).click();
  await account.revoke(created.id);
  console.expectFailures();
  let renewals = 0;
  page.on('request', (request) => {
    if (request.url().endsWith('/token')) renewals += 1;
  });
  const dialog = page.getByRole('dialog');
  await dialog.getByRole('button', { name: 'Rotate' }).click();
  const failure = await dialog.locator('.failure').innerText();
  t.regex(failure, /This key was rotated or revoked, and cannot change any more\./);
  t.regex(failure, /409 CONFLICT · request req_[0-9A-Z]{26}/);
  await page.locator('.state.bad').waitFor();
  await dialog.getByRole('button', { name: 'Go back' }).click();
  await page.getByText('You have no active key').waitFor();
  t.is(await page.getByRole('button', { name: 'Rotate' }).count(), 0);
  t.is(renewals, 0);

  await console.requireClean(t);
});

browserTest('a failed load can be repeated, and a failed reload keeps the table', async (t) => {
  await keysOf('reader').create({ name: 'only one' });
  await using console = await openConsole();
  const { page } = console;
  console.expectFailures();
  let isAway = true;
  await page.route('**/v1/keys', (route) => (isAway ? route.abort() : route.continue()));
  await console.goTo('keys');
  await console.signIn('reader');
  await page.getByText('The API cannot be reached.').waitFor();
  isAway = false;
  await button(page, 'Try again').click();
  await rowOf(page, 'only one').waitFor();
  isAway = true;
  await button(page, 'Refresh').click();
  await page.getByText('The API cannot be reached.').waitFor();
  t.true(await rowOf(page, 'only one').isVisible());
  await console.requireClean(t);
});

browserTest(
  'a hundred keys and those that have ended are listed, found by name, and one more is refused',
  async (t) => {
    const account = keysOf('collector');
    for (let made = 1; made <= 100; made += 1) await account.create({ name: `program ${made}` });
    for (const { id } of (await account.list()).slice(0, 20)) await account.revoke(id);
    for (let made = 1; made <= 20; made += 1) await account.create({ name: `later ${made}` });
    await using console = await openConsole();
    const { page } = console;
    await console.goTo('keys');
    await console.signIn('collector');
    await page.locator('tbody tr').nth(119).waitFor();
    t.is(await page.locator('tbody tr').count(), 120);
    await page.getByLabel('Find by name').fill('LATER 1');
    await page.getByText('11 of 120 keys').waitFor();
    t.is(await page.locator('tbody tr').count(), 11);
    await page.getByLabel('Find by name').fill('nothing');
    await page.getByText('0 of 120 keys').waitFor();

    await button(page, 'Create a key').click();
    await page.getByLabel('Name', { exact: true }).fill('one too many');
    console.expectFailures();
    await page.getByRole('dialog').getByRole('button', { name: 'Create' }).click();
    await page.getByText('The account has 100 further keys that are valid').waitFor();
    await console.requireClean(t);
  },
);

browserTest('a new key does not replace one that is not stored yet', async (t) => {
  await using console = await openConsole();
  const { page } = console;
  await console.goTo('keys');
  await console.signIn('collecting');
  for (const name of ['one', 'two']) {
    await button(page, 'Create a key').click();
    await page.getByLabel('Name').fill(name);
    await page.getByRole('dialog').getByRole('button', { name: 'Create' }).click();
    await dialogGone(page);
  }
  const [newer = '', older = ''] = await page.locator('code.key').allInnerTexts();
  for (const key of [newer, older]) t.is(await models(key), 2);
  t.not(newer, older);
  await page
    .getByRole('region', { name: 'Your new key "two"' })
    .getByRole('button', { name: 'I have stored it' })
    .click();
  await page.getByText(newer).waitFor({ state: 'detached' });
  t.is(await page.locator('code.key').innerText(), older);
  await button(page, 'I have stored it').click();
  await console.requireClean(t);
});
