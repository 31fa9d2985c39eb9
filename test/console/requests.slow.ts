import { readFile } from 'node:fs/promises';
import test from 'ava';
import type { Locator } from 'playwright-core';
import { openStore } from '../../shared/process/open-store.ts';
import { usageRecord } from '../shared/store/usage-records.ts';
import { openBrowserTests } from '../support/browser/browser-tests.ts';
import { createKeyClient } from '../support/key-client.ts';
import { recordedLog } from '../support/recorded-log.ts';
import { readCsv } from '../support/report-side.ts';

const broken = { tier: 'standard', pool: 'default', backends: ['onprem-a', 'onprem-b'] };
const { browserTest, stack, openConsole } = openBrowserTests(test, {
  modelServers: { firstTokenMs: 50, tokensPerSecond: 40 },
  models: { 'broken-chat': broken, 'down-chat': broken },
  prices: { 'small-chat': [{ from: '2026-01-01', prompt: 1, completion: 2 }] },
});

const body = { model: 'small-chat', messages: [{ role: 'user', content: 'Hello' }], max_tokens: 20 };

browserTest('requests are listed and filtered, and one shows its timeline, facts and charge', async (t) => {
  const keys = createKeyClient(stack());
  const key = await keys.newKey('looker');
  for (const model of ['small-chat', 'medium-chat']) t.is((await keys.infer(key, model)).status, 200);
  await using console = await openConsole();
  const { page } = console;
  await console.goTo('requests');
  await console.signIn('looker');
  const rows = page.getByRole('table', { name: 'Requests, latest first' }).locator('tbody tr');
  await rows.nth(1).waitFor();
  t.is(await rows.count(), 2);
  t.regex(await rows.first().innerText(), /now|\d+ s ago/);
  await page.getByRole('combobox', { name: 'Model' }).selectOption('medium-chat');
  await page.waitForURL(/#requests\?range=24h&model=medium-chat$/);
  await rows.nth(1).waitFor({ state: 'detached' });
  await rows.first().waitFor();
  t.regex(await rows.first().innerText(), /medium-chat/);
  t.is(await rows.count(), 1);
  const [file] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('button', { name: 'Export as CSV', exact: true }).click(),
  ]);
  t.like(readCsv(await readFile(await file.path(), 'utf8')), [{ result: 'completed', key: 'default' }]);
  await page.getByRole('combobox', { name: 'Result' }).selectOption('failed, any code');
  await page.getByText('No request fits.').waitFor();
  await page.goBack();

  await rows.first().getByRole('link').click();
  await page.getByText('The answer was complete.').waitFor();
  const timeline = page.getByRole('list', { name: 'Timeline' });
  t.deepEqual((await timeline.locator('.phase').allInnerTexts()).slice(0, 2), ['Queue', '1 on-prem']);
  const facts = await page.locator('main').innerText();
  t.regex(facts, /Charged\s+[1-9]\d* tokens/);
  t.regex(facts, /Model\s+medium-chat/);
  t.regex(facts, /Key\s+default/);
  await console.requireClean(t);
});

browserTest('an account without requests is shown how to send one, and the list begins when it comes', async (t) => {
  const keys = createKeyClient(stack());
  const key = await keys.newKey('beginner');
  await using console = await openConsole();
  const { page } = console;
  await console.goTo('requests');
  await console.signIn('beginner');
  await page.getByText('Waiting for the first request …').waitFor();
  await page.getByText('Put your key default into KEY:').waitFor();
  t.is((await keys.infer(key)).status, 200);
  const rows = page.getByRole('table', { name: 'Requests, latest first' }).locator('tbody tr');
  await rows.first().waitFor();
  await page.getByRole('switch', { name: 'Live' }).check();
  t.is((await keys.infer(key)).status, 200);
  await rows.nth(1).waitFor();
  await page.getByText('1 new request.').waitFor({ state: 'attached' });
  await console.requireClean(t);
});

browserTest('a failed request says why, and what to do; an operator sees who failed, and the runbook', async (t) => {
  const keys = createKeyClient(stack());
  const key = await keys.newKey('unlucky');
  for (const server of stack().modelServers) server.fail({ status: 500 }, 'broken-chat');
  const send = () =>
    keys.send('POST', '/v1/chat/completions', { bearer: key, body: { ...body, model: 'broken-chat' } });
  const failed = [await send(), await send()];
  t.deepEqual(
    failed.map(({ status }) => status),
    [503, 503],
  );
  const [id = ''] = failed.map(({ headers }) => headers.get('x-request-id') ?? '');
  await using console = await openConsole();
  const { page } = console;
  await console.goTo('requests');
  await console.signIn('unlucky');
  const rows = page.getByRole('table', { name: 'Requests, latest first' }).locator('tbody tr');
  await rows.getByText('503 UPSTREAMS_EXHAUSTED').nth(1).waitFor();
  await page.getByRole('link', { name: new RegExp(`^req_.*${id.slice(-5)}$`) }).click();
  await page.getByRole('heading', { name: `${id} 503 UPSTREAMS_EXHAUSTED` }).waitFor();
  const box = page.getByRole('region', { name: 'What happened' });
  await box.getByText('No model server could answer: on-prem model servers answered HTTP 500.').waitFor();
  t.regex(
    await box.innerText(),
    /The client got 503 UPSTREAMS_EXHAUSTED, "No model server could answer.*Nothing was charged/s,
  );
  const help = await box.getByRole('link', { name: 'What this code means' }).getAttribute('href');
  t.regex(help ?? '', /\/docs\/errors#UPSTREAMS_EXHAUSTED$/);
  await box.getByRole('link', { name: '1 more like this in the same minute' }).click();
  await page.waitForURL(/#requests\?start=.*&end=.*&code=UPSTREAMS_EXHAUSTED$/);
  await rows.nth(1).waitFor();
  t.is(await rows.count(), 2);
  await console.requireClean(t);

  await using operator = await openConsole();
  await operator.goTo(`find/${id}`);
  await operator.signIn('olga');
  const theirs = operator.page.getByRole('region', { name: 'What happened' });
  await theirs.getByText('No model server could answer: two answered HTTP 500.').waitFor();
  await theirs.getByRole('link', { name: 'Runbook: a model is down' }).waitFor();
  const calls = operator.page.getByRole('table', { name: 'Calls of model servers, in order' });
  t.regex(await calls.locator('tbody tr').first().innerText(), /onprem-[ab]\s+127\.0\.0\.1:\d+/);
  await operator.page.getByRole('link', { name: 'broken-chat' }).click();
  await operator.page.getByRole('heading', { name: 'Requests of user:unlucky' }).waitFor();
  await operator.page.getByText('503 UPSTREAMS_EXHAUSTED').nth(1).waitFor();
  await operator.requireClean(t);
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

browserTest('on a phone a request has two lines, and an id is copied whole', async (t) => {
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
  const row = page.getByRole('table', { name: 'Requests, latest first' }).locator('tbody tr');
  await row.waitFor();
  const tops = await row
    .locator('th, td')
    .evaluateAll((cells) => cells.map((cell) => cell.getBoundingClientRect()).filter(({ height }) => height > 0));
  t.is(new Set(tops.map(({ bottom }) => Math.round(bottom / 20))).size, 2);
  t.is(await page.evaluate('document.documentElement.scrollWidth'), 390, 'nothing scrolls sideways');
  await page.getByRole('button', { name: `Copy the request ID ${requestId}` }).click();
  t.is(await page.evaluate('navigator.clipboard.readText()'), requestId);
  await console.requireClean(t);
});

browserTest('from the home page few clicks answer what a customer and an operator ask most', async (t) => {
  const keys = createKeyClient(stack());
  const [key, another] = [await keys.newKey('asker'), await keys.newKey('another-asker')];
  for (const server of stack().modelServers) server.fail({ status: 500 }, 'down-chat');
  const failing = { ...body, model: 'down-chat' };
  // Until the breakers of both backends are open, for which the failures of one account are not enough.
  for (const bearer of Array.from({ length: 16 }, () => [key, another]).flat())
    t.is((await keys.send('POST', '/v1/chat/completions', { bearer, body: failing })).status, 503);
  const [{ id = '' } = {}] = await keys.list('asker');
  await using store = await openStore(`sqlite:${stack().directory}/store.sqlite`, recordedLog());
  const yesterday = new Date(Date.now() - 86_400_000);
  const record = { account: 'user:asker', model: 'small-chat', keyId: id, admittedAt: yesterday };
  await store.usage.recordUsage([usageRecord({ ...record, promptTokens: 1_000_000, completionTokens: 1_000_000 })]);
  await using customer = await openConsole();
  await using operator = await openConsole();
  let clicks = 0;
  const click = async (locator: Locator) => {
    clicks += 1;
    await locator.click();
  };
  const clicked = () => {
    const count = clicks;
    clicks = 0;
    return count;
  };

  const { page } = customer;
  await customer.goTo('overview');
  await customer.signIn('asker');
  await page.getByRole('heading', { name: 'Overview', exact: true }).waitFor();
  await click(page.getByRole('link', { name: 'Errors', exact: true }));
  await click(page.getByRole('table', { name: 'Requests, latest first' }).getByRole('link', { name: /^req_/ }).last());
  await page.getByText('No model server could answer: on-prem model servers answered HTTP 500.').waitFor();
  t.is(clicked(), 2, 'why a request of its own has failed');

  await customer.goTo('overview');
  await click(page.getByRole('link', { name: 'Cost', exact: true }));
  await click(page.getByRole('radio', { name: 'Yesterday' }));
  await page
    .getByRole('region', { name: /^By key/ })
    .getByText('3.00 USD')
    .first()
    .waitFor();
  t.is(clicked(), 2, 'what yesterday has cost, by key');

  await operator.goTo('');
  await operator.signIn('olga');
  const home = operator.page;
  const incident = home.getByRole('region', { name: /^down-chat.* cannot be answered$/ });
  await incident.getByRole('heading', { name: / since \d\d:\d\d \(/ }).waitFor();
  await incident.getByText('onprem-a and onprem-b: HTTP 500').waitFor();
  t.is(clicked(), 0, 'which backends are the cause, and since when');
  await click(home.getByRole('button', { name: /^onprem-a for down-chat: / }));
  await home.getByRole('dialog').getByText('HTTP 500').first().waitFor();
  t.is(clicked(), 1, 'the last error of one');
  await home.keyboard.press('Escape');

  await click(incident.getByRole('link', { name: 'user:asker' }));
  await click(
    home
      .getByRole('table', { name: /^Requests/ })
      .getByRole('link', { name: /^req_/ })
      .last(),
  );
  await home.getByText(/^No model server could answer: /).waitFor();
  t.is(clicked(), 2, 'why a request of a customer has failed');
  await operator.requireClean(t);
  await customer.requireClean(t);
});
