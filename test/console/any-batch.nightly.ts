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
  const loading = Promise.withResolvers<void>();
  await page.route(/\/(quota|limits)$/, async (route) => {
    await loading.promise;
    await route.continue();
  });
  await page.getByRole('link', { name: 'user:batch-signer' }).click();
  const link = page.getByRole('link', { name: 'in.jsonl' });
  await page.getByText('It has sent no requests.').waitFor();
  await link.waitFor();
  const before = (await link.boundingBox())?.y ?? 0;
  loading.resolve();
  await page.getByText('Batch lines at once').waitFor();
  await page.getByText('of 10,000,000 tokens used').waitFor();
  const movedBy = Math.abs(((await link.boundingBox())?.y ?? 0) - before);
  t.true(movedBy < 5, `the link moves by ${movedBy} px while what is above it loads`);
  await link.click();
  await page.getByRole('heading', { name: 'in.jsonl cancelled' }).waitFor();
  await console.requireClean(t);
});
