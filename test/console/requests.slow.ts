import test from 'ava';
import { openBrowserTests } from '../support/browser/browser-tests.ts';
import { createKeyClient } from '../support/key-client.ts';

const { browserTest, stack, openConsole } = openBrowserTests(test, {
  modelServers: { firstTokenMs: 50, tokensPerSecond: 40 },
});

const body = { model: 'small-chat', messages: [{ role: 'user', content: 'Hello' }], max_tokens: 20 };

browserTest('requests are listed and filtered, and one shows its timeline, attempts and charge', async (t) => {
  const keys = createKeyClient(stack());
  const key = await keys.newKey('looker');
  for (const model of ['small-chat', 'medium-chat']) t.is((await keys.infer(key, model)).status, 200);
  await using console = await openConsole();
  const { page } = console;
  await console.goTo('requests');
  await console.signIn('looker');
  const rows = page.getByRole('table').locator('tbody tr');
  await rows.nth(1).waitFor();
  t.is(await rows.count(), 2);
  await page.getByRole('combobox', { name: 'Model' }).selectOption('medium-chat');
  await page.waitForURL(/#requests\?model=medium-chat$/);
  await rows.nth(1).waitFor({ state: 'detached' });
  await rows.first().waitFor();
  t.regex(await rows.first().innerText(), /medium-chat/);
  t.is(await rows.count(), 1);
  await page.getByRole('combobox', { name: 'Outcome' }).selectOption('failed');
  await page.getByText('No request fits.').waitFor();
  await page.goBack();

  await rows.first().getByRole('link').click();
  await page.getByText('The answer was complete.').waitFor();
  const timeline = page.getByRole('list', { name: 'Timeline' });
  const phases = await timeline.locator('.phase').allInnerTexts();
  t.is(phases[0], 'Queue');
  t.is(phases.at(-1), 'Attempt 1, on-prem');
  const figures = await page.locator('main').innerText();
  t.regex(figures, /Charged\s+[1-9]\d* tokens/);
  t.regex(figures, /Model\s+medium-chat/);
  await console.requireClean(t);
});

browserTest('a request is found by its id and by that of its answer, and an unknown id says so', async (t) => {
  const keys = createKeyClient(stack());
  const key = await keys.newKey('finder');
  const answer = await keys.send('POST', '/v1/chat/completions', { bearer: key, body });
  const requestId = answer.headers.get('x-request-id') ?? '';
  await using console = await openConsole();
  const { page } = console;
  await console.goTo('requests');
  await console.signIn('finder');
  console.expectFailures(); // the id of the answer is stored up to a second later
  for (const id of [requestId, String(answer.body.id)]) {
    await console.goTo('requests');
    await page.getByLabel('Find by ID').fill(id);
    await page.getByRole('button', { name: 'Find', exact: true }).click();
    const heading = page.getByRole('heading', { name: `${requestId} completed` });
    const again = page.getByRole('button', { name: 'Try again' });
    while (!(await heading.isVisible())) {
      if (await again.isVisible()) await again.click();
      await page.waitForTimeout(100);
    }
  }
  await page.keyboard.press('Control+k');
  await page.getByRole('combobox').fill('req_00000000000000000000000000');
  await page.keyboard.press('Enter');
  await page.getByText('404 NOT_FOUND').waitFor();
  const help = page.getByRole('link', { name: 'What this means' });
  t.regex((await help.getAttribute('href')) ?? '', /\/docs\/errors#NOT_FOUND$/);
  await console.requireClean(t);
});

browserTest('on a phone each value of a table has its title, and an id is copied whole', async (t) => {
  const keys = createKeyClient(stack());
  const bearer = await keys.newKey('phoner');
  const answer = await keys.send('POST', '/v1/chat/completions', { bearer, body });
  const requestId = answer.headers.get('x-request-id') ?? '';
  await using console = await openConsole({ viewport: { width: 1280, height: 900 } });
  const { page } = console;
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
  await console.goTo('requests');
  await console.signIn('phoner');
  await page.setViewportSize({ width: 390, height: 844 });
  const row = page.getByRole('table').locator('tbody tr');
  await row.waitFor();
  const titles = await row
    .locator('td')
    .evaluateAll((cells) => cells.map((cell) => getComputedStyle(cell, '::before').content));
  t.deepEqual(titles.slice(0, 2), ['"State"', '"Model"']);
  t.is(await page.evaluate('document.documentElement.scrollWidth'), 390, 'nothing scrolls sideways');
  await page.getByRole('button', { name: `Copy the request ID ${requestId}` }).click();
  t.is(await page.evaluate('navigator.clipboard.readText()'), requestId);
  await console.requireClean(t);
});
