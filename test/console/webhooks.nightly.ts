import { setTimeout as sleep } from 'node:timers/promises';
import test from 'ava';
import OpenAI from 'openai';
import { openBrowserTests } from '../support/browser/browser-tests.ts';
import { answerWith, ok, startWebhookReceiver, type WebhookReceiver } from '../support/webhook-receiver.ts';

const env = { WEBHOOK_SECRET_KEY: 'k'.repeat(40), WEBHOOK_HOSTS_PRIVATE: 'localhost:*' };
const { browserTest, openConsole } = openBrowserTests(test, { env });

let receiver: WebhookReceiver;
test.before(async () => {
  receiver = await startWebhookReceiver();
});
test.after.always(() => receiver[Symbol.asyncDispose]());

const address = (path: string) => `http://localhost:${receiver.port}/${path}`;

browserTest(
  'a person creates an endpoint, and the test that it sends is signed with the secret that was shown',
  async (t) => {
    await using console = await openConsole();
    const { page } = console;
    await console.goTo('webhooks');
    await console.signIn('hooked');
    await page.getByText('You have no endpoints yet.').waitFor();
    await page.getByRole('button', { name: 'Create an endpoint' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('URL').fill('http://10.0.0.1/events');
    const preselected = ['A batch has completed', 'A batch has failed', '80, 95 or 100 % of the quota'];
    for (const event of preselected) await dialog.getByLabel(event).uncheck();
    await dialog.getByRole('button', { name: 'Create' }).click();
    const wrong = dialog.locator('.wrong');
    await wrong.first().waitFor();
    t.regex((await wrong.allTextContents()).join(), /at least one event/);
    t.is(await dialog.locator('.failure').count(), 0, 'the fields say all of it');
    await dialog.getByLabel('A batch has completed').check();
    await dialog.getByRole('button', { name: 'Create' }).click();
    await dialog.getByLabel('URL').and(page.locator('[aria-invalid]')).waitFor();
    await dialog.getByLabel('URL').fill(` ${address('created')} `);
    await dialog.getByLabel('Description').fill('the billing service');
    await dialog.getByRole('button', { name: 'Create' }).click();
    await page.getByRole('heading', { name: 'The secret of the endpoint' }).waitFor();
    const secret = (await page.locator('code.key').textContent()) ?? '';
    t.regex(secret, /^whsec_/);
    await page.getByRole('button', { name: 'I have stored it' }).click();
    await page.getByText('the billing service').waitFor();
    t.false((await page.content()).includes(secret));

    await page.getByRole('button', { name: 'Send a test' }).click();
    await dialog.getByRole('button', { name: 'Send' }).click();
    await page.getByRole('cell', { name: 'delivered' }).waitFor();
    const [request] = receiver.received.filter(({ path }) => path === '/created');
    const client = new OpenAI({ apiKey: 'not used', webhookSecret: secret });
    const event = await client.webhooks.unwrap(request?.body ?? '', request?.headers as Record<string, string>);
    t.is(event.type as string, 'webhook.test');
    await page.getByText('Show', { exact: true }).last().click();
    await page.locator('pre').getByText('"webhook.test"').waitFor();

    await page.getByRole('button', { name: 'Send again' }).click();
    while (receiver.received.filter(({ path }) => path === '/created').length < 2) await sleep(20);
    await page.getByRole('button', { name: 'Deliveries' }).click();
    await page.getByRole('cell', { name: 'delivered' }).waitFor({ state: 'detached' });
  },
);

browserTest('an endpoint is edited, disabled and enabled, its secret is rotated, and it is deleted', async (t) => {
  await using console = await openConsole();
  const { page } = console;
  await console.goTo('webhooks');
  await console.signIn('changer');
  const dialog = page.getByRole('dialog');
  await page.getByRole('button', { name: 'Create an endpoint' }).click();
  await dialog.getByLabel('URL').fill(address('before'));
  await dialog.getByLabel('A key expires within seven days').check();
  await dialog.getByLabel('80, 95 or 100 % of the quota').uncheck();
  await dialog.getByLabel('A batch has completed').uncheck();
  await dialog.getByLabel('A batch has failed').uncheck();
  await dialog.getByRole('button', { name: 'Create' }).click();
  const first = await page.locator('code.key').textContent();
  await page.getByRole('button', { name: 'I have stored it' }).click();

  await page.getByRole('button', { name: 'Edit' }).click();
  t.true(await dialog.getByLabel('A key expires within seven days').isChecked());
  await dialog.getByLabel('URL').fill(address('after'));
  await dialog.getByLabel('A batch has failed').check();
  await dialog.getByRole('button', { name: 'Save' }).click();
  await page.getByRole('heading', { name: address('after') }).waitFor();
  await page.getByText('batch.failed, key.expiring').waitFor();

  await page.getByRole('button', { name: 'Disable' }).click();
  await dialog.getByRole('button', { name: 'Disable' }).click();
  await page.getByText('disabled', { exact: true }).waitFor();
  t.is(await page.getByRole('button', { name: 'Send a test' }).count(), 0);
  await page.getByRole('button', { name: 'Enable' }).click();
  await dialog.getByRole('button', { name: 'Enable' }).click();
  await page.getByText('enabled', { exact: true }).waitFor();

  await page.getByRole('button', { name: 'Rotate the secret' }).click();
  await dialog.getByRole('button', { name: 'Rotate' }).click();
  await page.getByRole('heading', { name: 'The secret of the endpoint' }).waitFor();
  t.not(await page.locator('code.key').textContent(), first);
  await page.getByText('Events are also signed with the old secret until').waitFor();

  await page.getByRole('button', { name: 'Delete' }).click();
  await dialog.getByRole('button', { name: 'Delete' }).click();
  await page.getByText('You have no endpoints yet.').waitFor();
});

browserTest('a failed delivery says why, is filtered by its state, and is sent again', async (t) => {
  await using failing = await startWebhookReceiver(answerWith(500));
  await using console = await openConsole();
  const { page } = console;
  await console.goTo('webhooks');
  await console.signIn('unlucky');
  const dialog = page.getByRole('dialog');
  await page.getByRole('button', { name: 'Create an endpoint' }).click();
  await dialog.getByLabel('URL').fill(`http://localhost:${failing.port}/events`);
  await dialog.getByRole('button', { name: 'Create' }).click();
  await page.getByRole('button', { name: 'I have stored it' }).click();
  await page.getByRole('button', { name: 'Send a test' }).click();
  await dialog.getByRole('button', { name: 'Send' }).click();
  await page.getByText(/^500 after \d+ ms.*; next at /).waitFor();
  await page.getByLabel('Show').first().selectOption('delivered');
  await page.getByText('There are no such deliveries.').waitFor();
  await page.getByLabel('Show').first().selectOption('');
  failing.answer(ok);
  await page.getByRole('button', { name: 'Send again' }).click();
  await page.getByRole('cell', { name: 'delivered' }).waitFor();
  t.pass();
});
