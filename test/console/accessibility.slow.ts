import test from 'ava';
import type { FleetView } from '../../ingress/routes/fleet.ts';
import { linesOf, openBatchClient } from '../support/batch-client.ts';
import { openBrowserTests } from '../support/browser/browser-tests.ts';
import type { ConsolePage } from '../support/browser/console-page.ts';
import { findBarriersInAllViews } from '../support/browser/find-barriers.ts';
import { chat } from '../support/chat.ts';
import { createFurtherKeyClient } from '../support/further-key-client.ts';
import { createKeyClient } from '../support/key-client.ts';
import { createPlanEditor } from '../support/plan-file-editor.ts';
import { someOf } from '../support/size.ts';
import { createTopUpClient } from '../support/top-up-client.ts';

const webhookEnv = { WEBHOOK_SECRET_KEY: 'k'.repeat(40), WEBHOOK_HOSTS_PRIVATE: 'localhost:*' };
const { browserTest, stack, openConsole } = openBrowserTests(test, {
  env: webhookEnv,
  models: { 'broken-chat': { tier: 'standard', pool: 'default', backends: ['onprem-a'] } },
});

/** The pages to check, each with an account and steps that fill it. Each is checked in every view. */
type Step = (console: ConsolePage) => Promise<void>;
const shown: Record<string, { account: string; fragment: string; fill?: Step; tidy?: Step }> = {
  'the keys of a new account': {
    account: 'new',
    fragment: 'keys',
    fill: ({ page }) => page.getByText('You have no key.').waitFor(),
  },
  'a new key and its confirmation dialog': {
    account: 'minter',
    fragment: 'keys',
    async fill({ page }) {
      await page.getByRole('button', { name: 'Create a key' }).click();
      await page.getByRole('dialog').getByLabel('Name').fill('minted');
      await page.getByRole('dialog').getByRole('button', { name: 'Create' }).click();
      await page.getByRole('button', { name: 'Rotate' }).click();
      await page.getByRole('dialog').waitFor();
    },
    async tidy({ page }) {
      await page.getByRole('button', { name: 'Go back' }).click();
      await page.getByRole('button', { name: 'I have stored it' }).click();
    },
  },
  'keys of every state, and the key of a device': {
    account: 'owner',
    fragment: 'keys',
    async fill({ page }) {
      const keys = createKeyClient(stack());
      const account = createFurtherKeyClient(keys, 'owner');
      await keys.newKey('owner');
      const long = { name: 'a program with a name of many words '.repeat(2).trim() };
      for (const fields of [long, {}, {}]) await account.create(fields);
      const [, , rotated, revoked] = await account.list();
      await account.rotate(rotated?.id ?? '', { grace_seconds: 3_600 });
      await account.revoke(revoked?.id ?? '');
      for (let made = 0; made < 10; made += 1) await account.create({ expires_at: 4_000_000_000 });
      await page.reload();
      await page.getByText(/ min \d+ s left$/).waitFor();
      await page.getByLabel('Device ID').fill('device-of-the-owner');
      await page.getByRole('button', { name: 'Get the key' }).click();
      await page.getByText('Left today').waitFor();
    },
    async tidy({ page }) {
      await page.getByRole('button', { name: 'Hide the guest key' }).click();
    },
  },
  'the form of a key, with errors at its fields': {
    account: 'former',
    fragment: 'keys',
    async fill(console) {
      const { page } = console;
      await page.getByRole('button', { name: 'Create a key' }).click();
      const dialog = page.getByRole('dialog');
      await dialog.getByLabel('Name').fill('refused');
      await dialog.getByText('Restrict this key').click();
      await dialog.getByLabel('Allowed addresses').fill('nonsense');
      for (const list of ['Endpoints', 'Models']) {
        await dialog.getByRole('group', { name: list }).getByLabel('Only these').check();
      }
      console.expectFailures();
      await dialog.getByRole('button', { name: 'Create' }).click();
      await dialog.locator('.wrong').first().waitFor();
    },
  },
  'the confirmation of the end of a key in use': {
    account: 'ender',
    fragment: 'keys',
    async fill({ page }) {
      await createFurtherKeyClient(createKeyClient(stack()), 'ender').create();
      await page.route('**/v1/keys', async (route) => {
        const response = await route.fetch();
        const list = (await response.json()) as { data: object[] };
        const data = list.data.map((each) => ({ ...each, last_used_at: Math.floor(Date.now() / 1000) }));
        await route.fulfill({ response, json: { ...list, data } });
      });
      await page.reload();
      await page.getByRole('button', { name: 'Revoke' }).click();
      await page.getByText('This key was used in the last 24 hours.').waitFor();
    },
  },
  'the usage of a month with requests': {
    account: 'user',
    fragment: 'top-up',
    async fill({ page }) {
      const keys = createKeyClient(stack());
      const key = await keys.newKey('user');
      for (const model of ['small-chat', 'medium-chat']) await keys.infer(key, model);
      await page.reload();
      const chart = page.locator('.chart');
      while (!(await chart.isVisible())) {
        await page.getByRole('button', { name: 'Refresh' }).click();
        await page.waitForTimeout(300);
      }
    },
  },
  'the usage of a month without requests': {
    account: 'idler',
    fragment: 'usage',
    fill: ({ page }) => page.getByText(/^No usage from /).waitFor(),
  },
  'usage by every group, of other days': {
    account: 'grouper',
    fragment: 'usage',
    async fill({ page }) {
      const keys = createKeyClient(stack());
      const { key } = await createFurtherKeyClient(keys, 'grouper').create();
      await keys.infer(String(key));
      await page.reload();
      await page.getByRole('radio', { name: 'Other days' }).check();
      for (const group of ['key', 'endpoint']) await page.getByRole('checkbox', { name: group }).check();
      const table = page.getByRole('region', { name: /^By day/ });
      while (!(await table.isVisible())) {
        await page.getByRole('button', { name: 'Refresh' }).click();
        await page.waitForTimeout(300);
      }
    },
  },
  'two answers side by side': {
    account: 'asker',
    fragment: 'try-it',
    async fill({ page }) {
      await page.getByLabel('Compare with').selectOption('medium-chat');
      await page.getByRole('button', { name: 'Send' }).click();
      await page.getByText('The answers are complete.').waitFor();
      await page.setViewportSize({ width: 390, height: 900 });
      await page.getByRole('button', { name: /^Settings: / }).click();
    },
  },
  'the request as a program': {
    account: 'asker',
    fragment: 'try-it',
    async fill({ page }) {
      await page.getByRole('button', { name: 'Show the code' }).click();
      await page.getByRole('dialog').waitFor();
    },
  },
  'a batch with errors in its file': {
    account: 'batcher',
    fragment: 'batches',
    async fill({ page, url }) {
      for (const [name, lines] of Object.entries({ 'good.jsonl': linesOf(3), 'bad.jsonl': 'no JSON' })) {
        await page.goto(`${url}#batches`);
        const file = { name, mimeType: 'application/jsonl', buffer: Buffer.from(lines) };
        await page.getByLabel(/^Drop a JSONL file/).setInputFiles(file);
        await page.getByRole('button', { name: /^Create (the batch|it anyway)/ }).click();
        await page.getByRole('heading', { name: new RegExp(`${name} (completed|failed)`) }).waitFor();
      }
    },
  },
  'the list of batches': {
    account: 'collector',
    fragment: 'batches',
    async fill({ page }) {
      const user = await openBatchClient(stack(), 'collector');
      const input_file_id = await user.upload(linesOf(1));
      for (let made = 0; made < 2; made += 1)
        await user.client.batches.create({ input_file_id, endpoint: '/v1/chat/completions', completion_window: '24h' });
      await page.reload();
      await page.locator('[data-batch]').nth(1).waitFor();
    },
  },
  'a file before it is sent, with faults': {
    account: 'previewer',
    fragment: 'batches',
    async fill({ page }) {
      const buffer = Buffer.from('no JSON\n{}\n');
      const file = { name: `${'a'.repeat(120)}.jsonl`, mimeType: 'application/jsonl', buffer };
      await page.getByLabel(/^Drop a JSONL file/).setInputFiles(file);
      await page.getByText('Correct them first').waitFor();
    },
  },
  'the overview of a new account': {
    account: 'beginner',
    fragment: 'overview',
    fill: ({ page }) => page.getByRole('heading', { name: 'First steps' }).waitFor(),
  },
  'the overview of an account in use': {
    account: 'regular',
    fragment: 'overview',
    async fill({ page }) {
      const keys = createKeyClient(stack());
      await keys.infer(await keys.newKey('regular'));
      await page.reload();
      await page.locator('.chart').waitFor();
    },
  },
  'the list of requests': {
    account: 'lister',
    fragment: 'requests',
    async fill({ page }) {
      const keys = createKeyClient(stack());
      await keys.infer(await keys.newKey('lister'));
      await page.locator('.state', { hasText: 'completed' }).waitFor();
      await page.getByRole('radio', { name: 'Other times' }).check();
      await page.getByLabel('Until').waitFor();
    },
  },
  'the list of requests of an account without any': {
    account: 'waiter',
    fragment: 'requests',
    fill: ({ page }) => page.getByText('Waiting for the first request …').waitFor(),
  },
  'a failed request of any account': {
    account: 'olga',
    fragment: 'requests?account=user%3Afailing&code=UPSTREAMS_EXHAUSTED',
    async fill({ page }) {
      const keys = createKeyClient(stack());
      for (const server of stack().modelServers) server.fail({ status: 500 }, 'broken-chat');
      await keys.infer(await keys.newKey('failing'), 'broken-chat');
      await page.reload();
      await page.getByRole('link', { name: /^req_/ }).first().click();
      await page.getByRole('region', { name: 'What happened' }).waitFor();
    },
  },
  'the question before overage is turned on': {
    account: 'careful',
    fragment: 'usage',
    async fill({ page }) {
      await page.getByRole('button', { name: 'Turn overage on' }).click();
      await page.getByRole('dialog').waitFor();
    },
    async tidy({ page }) {
      await page.getByRole('button', { name: 'Go back' }).click();
    },
  },
  'a request': {
    account: 'looker',
    fragment: 'requests',
    async fill({ page }) {
      const keys = createKeyClient(stack());
      await keys.infer(await keys.newKey('looker'));
      await page.reload();
      await page.getByRole('link', { name: /^req_/ }).first().click();
      await page.getByRole('heading', { name: 'Timeline' }).waitFor();
    },
  },
  'the search for pages': {
    account: 'lister',
    fragment: 'overview',
    async fill({ page }) {
      await page.getByRole('button', { name: 'Go to' }).click();
      await page.getByRole('dialog').getByRole('combobox').fill('e');
    },
    tidy: ({ page }) => page.keyboard.press('Escape'),
  },
  'the navigation of a phone': {
    account: 'lister',
    fragment: 'overview',
    async fill({ page }) {
      await page.setViewportSize({ width: 390, height: 900 });
      await page.getByRole('button', { name: 'Menu' }).click();
      await page.getByRole('link', { name: 'Webhooks' }).waitFor();
    },
  },
  'top-up codes in every state, and new ones': {
    account: 'olga',
    fragment: 'top-up-codes',
    async fill(console) {
      const { page } = console;
      const client = createTopUpClient(createKeyClient(stack()));
      const [redeemed, revoked] = await client.create({ tokens: 1_000, count: 3, note: 'a note '.repeat(12).trim() });
      await client.redeem('buyer', redeemed?.code ?? '');
      await client.revoke(revoked?.id ?? '');
      await page.getByLabel('Tokens of each code').fill('500');
      await page.getByRole('button', { name: 'Create' }).click();
      await page.getByRole('textbox', { name: 'New codes' }).waitFor();
    },
  },
  'top-up codes that cannot be created': {
    account: 'olga',
    fragment: 'top-up-codes',
    async fill(console) {
      const { page } = console;
      console.expectFailures();
      await page.getByLabel('Tokens of each code').fill('9000000000000');
      await page.getByRole('button', { name: 'Create' }).click();
      await page.locator('.wrong').waitFor();
    },
  },
  'the confirmation that a code is revoked': {
    account: 'olga',
    fragment: 'top-up-codes',
    async fill({ page }) {
      await createTopUpClient(createKeyClient(stack())).create({ tokens: 1_000 });
      await page.reload();
      await page
        .getByRole('button', { name: /^Revoke tuc_/ })
        .first()
        .click();
      await page.getByRole('dialog').waitFor();
    },
  },
  'a refused top-up code': {
    account: 'refused',
    fragment: 'top-up',
    async fill(console) {
      const { page } = console;
      console.expectFailures();
      await page.getByLabel('Code', { exact: true }).fill('TOPUP-1');
      await page.getByRole('button', { name: 'Redeem' }).click();
      await page.locator('.wrong').waitFor();
    },
  },
  'the list of accounts': {
    account: 'olga',
    fragment: 'accounts',
    async fill({ page }) {
      await createKeyClient(stack()).newKey('listed');
      await page.reload();
      await page.getByRole('link', { name: 'user:listed' }).waitFor();
    },
  },
  'the form of a webhook endpoint, with errors at its fields': {
    account: 'hooked',
    fragment: 'webhooks',
    async fill(console) {
      const { page } = console;
      console.expectFailures();
      await page.getByRole('button', { name: 'Create an endpoint' }).click();
      await page.getByLabel('URL').fill('http://10.0.0.1/events');
      await page.getByRole('dialog').getByRole('button', { name: 'Create' }).click();
      await page.locator('.wrong').first().waitFor();
    },
    async tidy({ page }) {
      await page.getByRole('button', { name: 'Go back' }).click();
    },
  },
  'a webhook endpoint with a new secret, and a delivery that has failed': {
    account: 'hooked',
    fragment: 'webhooks',
    async fill({ page }) {
      await page.getByRole('button', { name: 'Create an endpoint' }).click();
      const dialog = page.getByRole('dialog');
      await dialog.getByLabel('URL').fill(`http://localhost:9/${'events'.repeat(20)}`);
      await dialog.getByRole('button', { name: 'Create' }).click();
      await page.getByRole('button', { name: 'Send a test' }).click();
      await dialog.getByRole('button', { name: 'Send' }).click();
      await page.getByText(/^the connection was refused after/).waitFor();
    },
  },
  'the settings, with a plan file that is invalid': {
    account: 'olga',
    fragment: 'settings',
    async fill({ page }) {
      const editor = createPlanEditor(stack());
      const before = await editor.text();
      await editor.write('plans: [');
      await page.getByRole('alert').waitFor();
      await editor.write(before);
    },
  },
  'an account': {
    account: 'olga',
    fragment: 'accounts/user%3Asubject',
    async fill({ page }) {
      const keys = createKeyClient(stack());
      await keys.infer(await keys.newKey('subject'));
      await keys.change('user:subject', { overageEnabled: true });
      await page.reload();
      await page.getByText('overage on').waitFor();
    },
  },
  'the usage of all accounts': {
    account: 'olga',
    fragment: 'all-usage',
    async fill({ page }) {
      const keys = createKeyClient(stack());
      await keys.infer(await keys.newKey('x'.repeat(100)));
      await page.reload();
      const row = page.getByRole('link', { name: 'x'.repeat(100) });
      while (!(await row.isVisible())) {
        await page.getByRole('button', { name: 'Refresh' }).click();
        await page.waitForTimeout(300);
      }
    },
  },
  'the audit trail, filtered': {
    account: 'olga',
    fragment: 'audit?account=user%3Aaudited', // the other tests write to that of all accounts
    async fill({ page }) {
      const long = 'a very long reason with many words '.repeat(13);
      await createKeyClient(stack()).change('user:audited', { suspended: true, reason: long });
      await page.reload();
      await page.getByText('a very long reason with many').first().waitFor();
    },
  },
  'an account that sends requests, and the confirmation that one is ended': {
    account: 'olga',
    fragment: 'accounts/user%3Asender',
    async fill({ page }) {
      // No other page uses this model.
      for (const server of stack().modelServers) server.fail({ endless: true, chunkMs: 50 }, 'large-chat');
      await createKeyClient(stack()).change('user:sender', { plan: 'pro' });
      const user = await openBatchClient(stack(), 'sender');
      const input_file_id = await user.upload(linesOf(2, { model: 'large-chat', maxTokens: 4_000 }));
      await user.client.batches.create({ input_file_id, endpoint: '/v1/chat/completions', completion_window: '24h' });
      await chat({
        ...{ url: stack().ingresses[0]?.url ?? '', key: user.apiKey, question: 'Go on', stream: true },
        ...{ model: 'large-chat', fields: { max_tokens: 4_000 } },
      });
      await page.reload();
      await page.getByText('line of a batch').first().waitFor();
      await page.getByRole('button', { name: /^Cancel in/ }).waitFor();
      await page.getByRole('button', { name: /^End req_/ }).click();
      await page.getByRole('dialog').waitFor();
    },
    async tidy({ page }) {
      await page.getByRole('button', { name: 'Go back' }).click();
      for (const server of stack().modelServers) server.heal();
    },
  },
  'the confirmation of a change of an account': {
    account: 'olga',
    fragment: 'accounts/user%3Asubject',
    async fill({ page }) {
      await page.getByRole('button', { name: 'Top up' }).click();
      await page.getByRole('dialog').waitFor();
    },
    async tidy({ page }) {
      await page.getByRole('button', { name: 'Go back' }).click();
    },
  },
  'the home of operators': { account: 'olga', fragment: 'service', fill: breakBackend },
  'the last error of a backend': {
    account: 'olga',
    fragment: 'service',
    async fill(console) {
      const { page } = console;
      await breakBackend(console);
      await page.getByRole('button', { name: / for small-chat: paused after failures/ }).click();
      await page.getByRole('dialog').getByText('connection refused').waitFor();
    },
  },
  'the fleet': {
    account: 'olga',
    fragment: 'fleet',
    fill: ({ page }) => page.getByRole('table', { name: 'Workers that are alive' }).waitFor(),
  },
  'what was found': {
    account: 'olga',
    fragment: 'find',
    async fill({ page, url }) {
      // The only account that is found would be opened at once.
      for (const name of ['found-1', 'found-2']) await createKeyClient(stack()).newKey(name);
      await page.goto(`${url}#find?user%3Afound-`);
      await page.getByRole('table', { name: 'Found for "user:found-"' }).waitFor();
    },
  },
  'long texts without a place to break': {
    account: 'olga',
    fragment: `accounts/user%3A${'x'.repeat(200)}`,
    fill: ({ page }) => page.getByText('or does not exist').waitFor(),
  },
  'a failure': {
    account: 'olga',
    fragment: 'accounts/device%3Anone',
    async fill(console) {
      console.expectFailures();
      await console.page.reload();
      await console.page.locator('.failure').waitFor();
    },
  },
};

/** One backend fails for all models, and operators have paused the others. */
async function breakBackend({ page }: ConsolePage): Promise<void> {
  const paused = { since: '2026-03-01T09:00:00Z', ends_at: '2100-03-01T09:30:00Z', by: 'user:olga', reason: null };
  await page.route('**/admin/fleet', async (route) => {
    const response = await route.fetch();
    const fleet = (await response.json()) as FleetView;
    const [first, ...others] = fleet.backends.map((backend) => ({ ...backend, paused }));
    const backends = [...(first === undefined ? [] : [failingBackend(first)]), ...others];
    await route.fulfill({ response, json: { ...fleet, backends } });
  });
  await page.reload();
  await page.getByRole('region', { name: /^small-chat.* cannot be answered$/ }).waitFor();
  await page
    .getByText(/accounts? \(|No request has failed/)
    .first()
    .waitFor();
  await page.getByText(' (127.0.0.1:9)').first().waitFor();
}

/** A backend that no worker can reach. */
function failingBackend(backend: FleetView['backends'][number]): FleetView['backends'][number] {
  const failure = {
    ...{ at: new Date().toISOString(), request: 'req_1', outcome: 'failed', cause: 'connection refused' },
    ...{ status: null, rule: 'no-connection', address: '127.0.0.1:9' },
  };
  const breakers = { closed: 0, 'half-open': 0, open: 1 };
  const models = backend.models.map((model) => ({
    ...{ ...model, breakers, failing_since: failure.at, last_failure: failure },
  }));
  return { ...backend, paused: null, models };
}

const all = Object.entries(shown);
/** A page of each kind. */
const few = all.filter(
  ([, { fragment }], index) => all.findIndex(([, other]) => kindOf(other) === kindOf({ fragment })) === index,
);

function kindOf({ fragment }: { fragment: string }): string {
  return fragment.split(/[/?]/)[0] ?? '';
}

for (const [what, { account, fragment, fill, tidy }] of someOf(few, all)) {
  browserTest(`${what}: no accessibility barriers in light and dark, on wide screens and phones`, async (t) => {
    await using console = await openConsole();
    if (account === 'olga') console.expectFailures();
    await console.goTo(fragment);
    await console.signIn(account);
    await fill?.(console);
    t.deepEqual(await findBarriersInAllViews(console.page), []);
    await tidy?.(console);
    await console.requireClean(t);
  });
}

browserTest('sign-in has no accessibility barriers', async (t) => {
  await using console = await openConsole();
  await console.goTo('keys');
  await console.page.getByRole('button', { name: 'Sign in' }).waitFor();
  t.deepEqual(await findBarriersInAllViews(console.page), []);
  await console.requireClean(t);
});

browserTest('everything works with the keyboard only: from sign-in to a revoked key', async (t) => {
  await using console = await openConsole();
  const { page } = console;
  const { keyboard } = page;
  const focused = () =>
    page.evaluate<string>(
      'document.activeElement.innerText || document.activeElement.getAttribute("aria-label") || ""',
    );
  const tabTo = async (name: string) => {
    for (let steps = 0; (await focused()) !== name; steps += 1) {
      if (steps > 60) throw new Error(`the keyboard cannot reach "${name}"`);
      await keyboard.press('Tab');
    }
  };
  await console.goTo('keys');
  await page.getByRole('button', { name: 'Sign in' }).waitFor();
  await tabTo('Sign in');
  await keyboard.press('Enter');
  await page.getByLabel('Name').waitFor();
  await keyboard.type('typist');
  await keyboard.press('Enter');
  await page.getByText('You have no key.').waitFor();
  await tabTo('Create a key');
  await keyboard.press('Enter');
  await page.getByRole('dialog').waitFor();
  await keyboard.type('first');
  await keyboard.press('Enter');
  await page.locator('code.key').waitFor();
  await tabTo('I have stored it');
  await keyboard.press('Enter');
  await tabTo('Revoke');
  await keyboard.press('Enter');
  await page.getByRole('dialog').waitFor();
  await keyboard.press('Escape');
  await page.locator('dialog').waitFor({ state: 'detached' }); // closed, it has no role before it is removed
  t.is(await focused(), 'Revoke', 'the focus returns to where it was before the dialog');
  await keyboard.press('Enter');
  await page.getByRole('dialog').waitFor();
  await tabTo('Revoke');
  await keyboard.press('Enter');
  await page.getByText('You have no active key').waitFor();
  await tabTo('Create a key');
  await keyboard.press('Enter');
  await page.getByRole('dialog').waitFor();
  await keyboard.type('typed');
  await keyboard.press('Enter');
  await page.locator('code.key').waitFor();
  await page.waitForFunction('document.activeElement.innerText === \'Your new key "typed"\'');
  await tabTo('I have stored it');
  await keyboard.press('Enter');
  await tabTo('Usage');
  await keyboard.press('Enter');
  await page.getByRole('heading', { name: 'Usage', exact: true }).waitFor();
  t.is(await focused(), 'Usage');
  await console.requireClean(t);
});
