import test from 'ava';
import { openBrowserTests } from '../support/browser/browser-tests.ts';
import { createKeyClient } from '../support/key-client.ts';
import { createPlanEditor } from '../support/plan-file-editor.ts';

const { browserTest, stack, openConsole } = openBrowserTests(test);

browserTest('a change is not undone any more once another operator has changed the same', async (t) => {
  const keys = createKeyClient(stack());
  await keys.newKey('contested');
  await using console = await openConsole();
  const { page } = console;
  await page.clock.install();
  await console.goTo('accounts/user%3Acontested');
  await console.signIn('olga');
  await page.getByRole('button', { name: 'Change the plan' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Plan of the account').selectOption('pro');
  await dialog.getByRole('button', { name: 'Change the plan' }).click();
  const undo = page.getByRole('button', { name: 'Undo' });
  await undo.waitFor();
  await keys.change('user:contested', { overageEnabled: true });
  await page.clock.fastForward(5_000);
  await page.getByRole('button', { name: 'Turn overage off' }).waitFor();
  t.true(await undo.isVisible(), 'that was another change');
  await keys.change('user:contested', { plan: 'free' });
  await page.clock.fastForward(5_000);
  await undo.waitFor({ state: 'detached' });
  t.is(await page.getByText('The plan is pro now.').count(), 0);
  await console.requireClean(t);
});

browserTest('an operator finds a device by the id that it sends', async (t) => {
  const keys = createKeyClient(stack());
  t.is((await keys.guest('device-of-a-guest')).status, 200);
  await using console = await openConsole();
  const { page } = console;
  await console.goTo('accounts');
  await console.signIn('olga');
  await page.getByLabel('Find by').selectOption('device ID');
  await page.getByRole('searchbox', { name: 'Device ID' }).fill('device-of-a-guest');
  await page.getByRole('button', { name: 'Find', exact: true }).click();
  await page.getByRole('heading', { name: /^device:[0-9a-f]{64}$/ }).waitFor();
  await page.getByText('guest-device').first().waitFor();

  console.expectFailures();
  await console.goTo('accounts/device%3Anone');
  await page.getByText('There is no such account.').waitFor();
  await console.requireClean(t);
});

browserTest('a signed-in user without a key can be given a plan by name', async (t) => {
  await using console = await openConsole();
  const { page } = console;
  console.expectFailures();
  await console.goTo('accounts/user%3Anewcomer');
  await console.signIn('olga');
  await page.getByText('This account has no key and no changes yet').waitFor();
  await page.getByRole('button', { name: 'Change the plan' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Plan of the account').selectOption('pro');
  await dialog.getByRole('button', { name: 'Change the plan' }).click();
  await page.getByRole('region', { name: 'Changes, newest first' }).waitFor();
  const keys = createKeyClient(stack());
  t.is((await keys.infer(await keys.newKey('newcomer'), 'large-chat')).status, 200);
  await console.requireClean(t);
});

browserTest(
  'an operator sees the plan file in force, each process with its version, and a file that is invalid',
  async (t) => {
    await using console = await openConsole();
    const { page } = console;
    await console.goTo('accounts');
    await console.signIn('olga');
    await page.getByRole('link', { name: 'Plan file' }).click();
    await page.getByRole('heading', { name: 'Plan file', exact: true }).waitFor();
    await page.waitForFunction('document.title === "Plan file · Inference service"');
    const rowsOf = (caption: string) => page.getByRole('region', { name: caption }).locator('tbody tr');
    await rowsOf('Processes').first().waitFor();
    t.deepEqual(
      (await rowsOf('Processes').locator('th').allTextContents()).map((name) => name.split(' ')[0]),
      ['ingress', 'worker'],
    );
    const names = await rowsOf('Models').locator('th').allTextContents();
    t.true(names.includes('small-chat'));
    t.regex((await rowsOf('Plans').allTextContents()).join(), /free \(default\)/);
    t.regex((await rowsOf('Backends').allTextContents()).join(), /http:\/\/127\.0\.0\.1/);
    t.regex(
      (await rowsOf('Other settings').allTextContents()).join(),
      /Time until a request leaves the queue.*timeouts\.queue_ms/,
    );

    const editor = createPlanEditor(stack());
    const before = await editor.text();
    await editor.write('plans: [');
    await page.getByRole('alert').getByText('plans.yaml:1:').waitFor();
    await page.getByText('its file is invalid').first().waitFor();
    await editor.write(before);
    await page.getByRole('alert').waitFor({ state: 'detached' });
  },
);

browserTest('the settings are for operators', async (t) => {
  await using console = await openConsole();
  await console.goTo('settings');
  await console.signIn('customer');
  await console.page.getByText('This page is for operators').waitFor();
  t.pass();
});
