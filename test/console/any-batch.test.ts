import test from 'ava';
import { linesOf, openBatchClient } from '../support/batch-client.ts';
import { openBrowserTests } from '../support/browser/browser-tests.ts';
import { createKeyClient } from '../support/key-client.ts';

const modelWithoutWorker = 'no-worker';

const { browserTest, stack, openConsole } = openBrowserTests(test, {
  models: { [modelWithoutWorker]: { tier: 'guest', pool: 'unserved', backends: ['onprem-a'] } },
  env: { POOLS: 'default' },
});

browserTest('an operator finds a batch of an account without a key by its id, and cancels it', async (t) => {
  const token = await createKeyClient(stack()).token('batch-signer');
  const user = await openBatchClient(stack(), 'batch-signer', token);
  const { id } = await user.create(linesOf(3, { model: modelWithoutWorker }));
  await user.until(id, ({ status }) => status === 'in_progress');
  await using console = await openConsole();
  const { page } = console;
  await console.goTo('find');
  await console.signIn('olga');
  await page.getByLabel('Account, key, request, batch or file').fill(id);
  await page.getByRole('button', { name: 'Find', exact: true }).click();
  await page.getByRole('heading', { name: 'in.jsonl in progress' }).waitFor();
  await page.getByText('0 of 3 lines').waitFor();
  await page.getByRole('button', { name: 'Cancel', exact: true }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByText('user:batch-signer').waitFor();
  await dialog.getByLabel('Reason (for the audit trail)').fill('too large');
  await dialog.getByRole('button', { name: 'Cancel the batch' }).click();
  await page.getByRole('heading', { name: 'in.jsonl cancelled' }).waitFor();
  await page.getByText('3 cancelled').waitFor();
  t.is(await page.getByRole('button', { name: 'Cancel', exact: true }).count(), 0);
  await page.getByRole('link', { name: 'user:batch-signer' }).click();
  await page.getByRole('link', { name: 'in.jsonl' }).click();
  await page.getByRole('heading', { name: 'in.jsonl cancelled' }).waitFor();
  await console.requireClean(t);
});
