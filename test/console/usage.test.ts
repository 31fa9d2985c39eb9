import test from 'ava';
import { openBrowserTests } from '../support/browser/browser-tests.ts';
import { createKeyClient } from '../support/key-client.ts';

const { browserTest, stack, openConsole } = openBrowserTests(test);

browserTest(
  'the quota is the one of the API, as a bar and in figures; the usage of the month is there by day and model',
  async (t) => {
    const keys = createKeyClient(stack());
    const key = await keys.newKey('spender');
    for (const model of ['small-chat', 'medium-chat', 'small-chat']) t.is((await keys.infer(key, model)).status, 200);
    await using console = await openConsole();
    const { page } = console;
    await console.goTo('usage');
    await console.signIn('spender');

    const { body } = await keys.send('GET', '/billing/quota', { bearer: key });
    const quota = body as Record<string, number> & { resetDate: string }; // the service's own answer
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
      const [, model, requests, failed, cancelled, , , tokens] = row.split('\t');
      t.deepEqual([requests, failed, cancelled], [model === 'small-chat' ? '2' : '1', '0', '0'], row);
      charged += Number(tokens);
    }
    t.is(charged, Number(quota.used));
    t.is(await page.locator('.chart rect').count(), 2, 'one piece of a bar for each model');
    const described = await page.locator('.chart svg').getAttribute('aria-label');
    t.regex(described ?? '', new RegExp(`^tokens charged by day and model: on one day, .*\\(${charged}\\)`));
    await page.getByRole('radio', { name: 'requests' }).check();
    t.regex((await page.locator('.chart svg').getAttribute('aria-label')) ?? '', /\(3\)/);

    await page.getByRole('button', { name: 'Month before' }).click();
    await page.getByText(/^Nothing was used in /).waitFor();
    t.true(await page.getByRole('cell', { name: 'small-chat, medium-chat' }).isVisible(), 'the limits of the plan');
    await console.requireClean(t);
  },
);

browserTest('the link of a spent quota leads to what one can do about it', async (t) => {
  const keys = createKeyClient(stack());
  const { body } = await keys.send('GET', '/billing/quota', { bearer: await keys.token('topper') });
  t.is(body.topupUrl, `${stack().baseUrl}/console#top-up`);
  await using console = await openConsole();
  const { page } = console;
  await page.goto(String(body.topupUrl));
  await console.signIn('topper');
  await page.getByRole('heading', { name: 'Top up' }).waitFor();
  t.is(await page.getByRole('link', { name: 'Usage' }).getAttribute('aria-current'), 'page');
  await console.requireClean(t);
});
