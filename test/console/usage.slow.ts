import { readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import test from 'ava';
import { openBrowserTests } from '../support/browser/browser-tests.ts';
import { createFurtherKeyClient } from '../support/further-key-client.ts';
import { createKeyClient } from '../support/key-client.ts';
import { readCsv } from '../support/report-side.ts';

const tiers = { model_tiers: ['guest', 'standard'] };
const { browserTest, stack, openConsole } = openBrowserTests(test, {
  plans: { small: { tokens_per_month: 100, ...tiers } },
  models: { 'hanging-chat': { tier: 'standard', pool: 'default' } },
  prices: { 'small-chat': [{ from: '2026-01-01', prompt: 1, completion: 2 }] },
});

/** The share of the quota bar that each of its parts has, by class. */
const measureBar = `(() => {
  const bar = document.querySelector('.quota-bar').getBoundingClientRect().width - 2;
  const parts = [...document.querySelectorAll('.quota-bar rect')];
  return Object.fromEntries(parts.map((part) => [part.getAttribute('class'), part.getBoundingClientRect().width / bar]));
})()`;

browserTest(
  'the quota is that of the API, as a bar and in figures; the usage of the month is shown by day and model',
  async (t) => {
    const keys = createKeyClient(stack());
    const key = await keys.newKey('spender');
    for (const model of ['small-chat', 'medium-chat', 'small-chat']) t.is((await keys.infer(key, model)).status, 200);
    await using console = await openConsole();
    const { page } = console;
    await console.goTo('usage');
    await console.signIn('spender');

    const { body } = await keys.send('GET', '/billing/quota', { bearer: key });
    const quota = body as Record<string, number> & { resetDate: string }; // a response of the service itself
    t.true(Number(quota.used) > 0);
    for (const [name, value] of Object.entries({ used: quota.used, remaining: quota.remaining, limit: quota.limit })) {
      t.is(await page.locator(`[data-figure=${name}]`).innerText(), Number(value).toLocaleString('en'), name);
    }
    const bar = (await page.getByRole('img', { name: /used/ }).first().getAttribute('aria-label')) ?? '';
    t.true(bar.includes(`${Number(quota.used).toLocaleString('en')} used, 0 reserved`), bar);

    const table = page.getByRole('region', { name: /^By day/ });
    // Usage is drained from the outbox a moment after the answer.
    await t.notThrowsAsync(async () => {
      while (!(await table.isVisible()) || (await table.locator('tbody tr').count()) < 2) {
        await page.getByRole('button', { name: 'Refresh' }).click();
        await page.waitForTimeout(200);
      }
    });
    let charged = 0;
    for (const row of await table.locator('tbody tr').allInnerTexts()) {
      const [, model, requests, tokens, cost] = row.split('\t');
      t.is(requests, model === 'small-chat' ? '2' : '1', row);
      t.is(cost, model === 'small-chat' ? '< 0.01 USD' : '–', row);
      charged += Number(tokens);
    }
    t.is(charged, Number(quota.used));
    const titles = () => table.getByRole('columnheader').allInnerTexts();
    const isShown = async (title: string) => (await titles()).includes(title);
    t.false(await isShown('Cancelled'), 'a column that is 0 in all rows is hidden');
    await page.getByRole('button', { name: 'Show all columns' }).click();
    t.true(await isShown('Cancelled'));

    const plot = page.locator('.chart [role=application]');
    // On its first day, the month is shown by hours.
    await page.getByRole('radio', { name: '7 days' }).check();
    await page.getByRole('radio', { name: 'Tokens' }).check();
    await page.locator('.chart [aria-label^="Tokens by model, each day"]').waitFor();
    t.regex(
      (await plot.getAttribute('aria-label')) ?? '',
      /^Tokens by model, each day \(UTC\)\. Most at .*: \d+ tokens\./,
    );
    await page.getByRole('radio', { name: 'Requests' }).check();
    t.regex((await plot.getAttribute('aria-label')) ?? '', /: 3 requests\./);
    await page.mouse.move(0, 0); // what is under the pointer would be shown instead
    await plot.focus();
    await page.keyboard.press('End');
    const said = page.locator('.chart').getByRole('status');
    await said.getByText(/small-chat 2 requests, medium-chat 1 requests$/).waitFor();
    await page.keyboard.press('Enter');
    await page.waitForURL(/#requests\?start=.*&end=/);
    await page.getByRole('table', { name: 'Requests, latest first' }).locator('tbody tr').nth(2).waitFor();
    await page.goBack();

    await page.getByRole('radio', { name: 'Last month' }).check();
    await page.getByText(/^No usage from /).waitFor();
    await page.getByText('small-chat, medium-chat, hanging-chat', { exact: true }).waitFor(); // the limits of the plan
    await console.requireClean(t);
  },
);

browserTest('usage is grouped by keys with their names, compared with the days before, and exported', async (t) => {
  const keys = createKeyClient(stack());
  const account = createFurtherKeyClient(keys, 'exporter');
  const { key } = await account.create({ name: 'nightly report' });
  for (const model of ['small-chat', 'medium-chat']) t.is((await keys.infer(String(key), model)).status, 200);
  await using console = await openConsole();
  const { page } = console;
  await console.goTo('usage');
  await console.signIn('exporter');
  await page.getByRole('radio', { name: 'key' }).check();
  const table = page.getByRole('region', { name: /^By key/ });
  const row = table.locator('tbody tr', { hasText: 'nightly report' });
  const requestsIn = async () => ((await row.count()) === 1 ? (await row.innerText()).split('\t')[1] : undefined);
  while ((await requestsIn()) !== '2') {
    await page.getByRole('button', { name: 'Refresh' }).click();
    await page.waitForTimeout(200);
  }
  t.is(await page.locator('[data-total=Requests]').innerText(), '2');
  const cost = page.locator('[data-total=Cost] span');
  t.is(await cost.innerText(), '< 0.01 USD');
  t.regex((await cost.getAttribute('title')) ?? '', /^0\.00\d+ USD$/);
  t.true(await page.getByText('no earlier usage').first().isVisible());
  t.true(await page.getByText(/ tokens have no price\.$/).isVisible());

  await page.getByRole('radio', { name: 'Yesterday' }).check();
  await page.getByText(/^No usage from /).waitFor();
  await page.getByRole('radio', { name: '24 hours' }).check();
  await row.waitFor();
  t.regex(await table.innerText(), /First token, p50 \/ p95/);
  await page.getByRole('radio', { name: '7 days' }).check();
  await page.getByRole('radio', { name: 'Other days' }).check();
  const [first, today] = ['2026-01-01', new Date().toISOString().slice(0, 10)];
  await page.getByLabel('First day (UTC)').fill(today);
  await page.getByText(/^Compared with [^ ]+ [^ ]+, 00:00 to/).waitFor();
  await row.waitFor();
  const [file] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('button', { name: 'Export as CSV' }).click(),
  ]);
  t.is(file.suggestedFilename(), `usage-${today}-${today}.csv`);
  const rows = readCsv(await readFile(await file.path(), 'utf8'));
  t.like(rows, [{ requests: '2', currency: 'USD' }]);

  await page.getByLabel('First day (UTC)').fill('12026-01-01');
  t.true(await row.isVisible(), 'it is not taken as a day');
  console.expectFailures();
  await page.getByLabel('First day (UTC)').fill(first);
  await page.getByLabel('Last day (UTC)').fill('2025-12-31');
  await page.getByText(/that is not before/).waitFor();
  await console.requireClean(t);
});

browserTest('the bar matches the figures: used, reserved, and usage beyond the allowance', async (t) => {
  const keys = createKeyClient(stack());
  const key = await keys.newKey('measured');
  await keys.change('user:measured', { plan: 'small', overageEnabled: true });
  for (const server of stack().modelServers) server.fail({ hang: true }, 'hanging-chat');
  const leaving = new AbortController();
  const hanging = fetch(`${stack().baseUrl}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'hanging-chat', max_tokens: 30, messages: [{ role: 'user', content: 'Wait' }] }),
    signal: leaving.signal,
  }).catch(() => undefined);
  const quotaOf = async () =>
    (await keys.send('GET', '/billing/quota', { bearer: key })).body as Record<string, number>;
  await t.notThrowsAsync(async () => {
    while (!((await quotaOf()).reserved ?? 0)) await sleep(50);
  });
  await using console = await openConsole();
  const { page } = console;
  await console.goTo('usage');
  await console.signIn('measured');
  const look = async () => {
    await page.reload();
    await page.locator('.quota-bar').waitFor();
    const bar = await page.evaluate<Record<string, number>>(measureBar);
    return { bar, quota: await quotaOf() };
  };
  const shares = (bar: Record<string, number>) =>
    ['used', 'reserved', 'over'].map((part) => Math.round(100 * (bar[part] ?? 0)));
  const first = await look();
  const { used = 0, reserved = 0, limit = 0 } = first.quota;
  t.true(reserved > 0 && used + reserved < limit);
  t.deepEqual(shares(first.bar), shares({ used: used / limit, reserved: reserved / limit }));

  for (let more = 0; more < 6; more += 1) t.is((await keys.infer(key)).status, 200);
  const second = await look();
  const { used: all = 0, reserved: waiting = 0 } = second.quota;
  const whole = all + waiting;
  t.true(all > limit);
  t.deepEqual(
    shares(second.bar),
    shares({ used: limit / whole, reserved: waiting / whole, over: (all - limit) / whole }),
  );
  leaving.abort();
  await hanging;
  await console.requireClean(t);
});

browserTest('overage is turned on with a bound, after a question', async (t) => {
  await createKeyClient(stack()).change('user:careful', { plan: 'small' });
  await using console = await openConsole();
  const { page } = console;
  await console.goTo('usage');
  await console.signIn('careful');
  await page.getByText('Off. When the 100 tokens are used, requests fail with 402.').waitFor();
  await page.getByRole('button', { name: 'Turn overage on' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByText('Requests continue beyond 100 tokens, and are charged.').waitFor();
  t.is(await dialog.getByLabel('Most this month, in tokens').inputValue(), '50');
  await dialog.getByLabel('Most this month, in tokens').fill('70');
  await dialog.getByRole('button', { name: 'Turn overage on' }).click();
  await page.getByText('Overage is on. Applies from your next request.').waitFor();
  await page.getByText('requests continue and are charged, up to 70 tokens a month.').waitFor();
  await page.getByRole('button', { name: 'Turn overage off' }).waitFor();
  await console.requireClean(t);
});

browserTest('the link of a used-up quota leads to the options to top up', async (t) => {
  const keys = createKeyClient(stack());
  const { body } = await keys.send('GET', '/billing/quota', { bearer: await keys.token('topper') });
  t.is(body.topupUrl, `${stack().baseUrl}/console#top-up`);
  await using console = await openConsole();
  const { page } = console;
  await page.goto(String(body.topupUrl));
  await console.signIn('topper');
  await page.getByRole('heading', { name: 'Top up' }).waitFor();
  t.is(await page.evaluate('document.activeElement.innerText'), 'Top up');
  t.is(await page.getByRole('link', { name: 'Usage' }).getAttribute('aria-current'), 'page');
  await console.requireClean(t);
});
