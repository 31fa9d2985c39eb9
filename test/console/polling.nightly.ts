import test from 'ava';
import type { Page } from 'playwright-core';
import { openBrowserTests } from '../support/browser/browser-tests.ts';
import { createKeyClient } from '../support/key-client.ts';

const { browserTest, stack, openConsole } = openBrowserTests(test);

/**
 * Pages of which each part is read again: who looks at it, one of its parts, another one of them, and how often. `shown` is of the part.
 */
const pages = {
  overview: {
    ...{ user: 'owner', path: '/billing/quota', what: 'your quota', other: '/billing/limits' },
    ...{ everyMs: 15_000, shown: /^This month: / },
  },
  'accounts/user%3Apolled': {
    ...{ user: 'olga', path: '/quota', what: 'its quota', other: '/limits' },
    ...{ everyMs: 5_000, shown: /tokens used/ },
  },
};

for (const [fragment, { user, path, what, other, everyMs, shown }] of Object.entries(pages)) {
  browserTest(`on #${fragment}, a part is not read again while it is read`, async (t) => {
    await createKeyClient(stack()).change('user:polled', { plan: 'pro' });
    await using console = await openConsole();
    const { page } = console;
    await page.clock.install();
    const held = Promise.withResolvers<void>();
    let asked = 0;
    await page.route(`**${path}`, async (route) => {
      asked += 1;
      await held.promise;
      await route.continue();
    });
    await console.goTo(fragment);
    await console.signIn(user);
    await page.getByText(`Loading ${what} …`).waitFor();
    for (let passed = 0; passed < 15_000; passed += everyMs) await readAgain(page, other, everyMs);
    t.is(asked, 1);
    held.resolve();
    await page.getByRole('region', { name: 'This month' }).getByText(shown).first().waitFor();
    await page.unrouteAll({ behavior: 'ignoreErrors' });
    await console.requireClean(t);
  });

  browserTest(`on #${fragment}, reading continues after a failure`, async (t) => {
    await createKeyClient(stack()).change('user:polled', { plan: 'pro' });
    await using console = await openConsole();
    const { page } = console;
    await page.clock.install();
    console.expectFailures();
    const body = { error: 'The store is away.', code: 'SERVICE_UNAVAILABLE' };
    await page.route(`**${other}`, (route) => route.fulfill({ status: 503, json: body }), { times: 1 });
    await console.goTo(fragment);
    await console.signIn(user);
    const failure = page.getByRole('region', { name: 'Limits, highest in the last hour' }).locator('.failure');
    await failure.getByText('The store is away.').waitFor();
    await readAgain(page, other, 2 * everyMs);
    await failure.waitFor({ state: 'detached' });
    await readAgain(page, path, everyMs);
    await console.requireClean(t);
  });
}

browserTest('on #overview, a chart that cannot be read says so, and stays while it is read again', async (t) => {
  const keys = createKeyClient(stack());
  const key = await keys.newKey('charted');
  t.is((await keys.infer(key)).status, 200);
  const used = async () => (await keys.send('GET', '/billing/usage?group_by=hour', { bearer: key })).body.rowCount;
  while ((await used()) === 0);
  await using console = await openConsole();
  const { page } = console;
  await page.clock.install();
  console.expectFailures();
  const held = Promise.withResolvers<void>();
  let asked = 0;
  await page.route('**/billing/usage?*group_by=hour%2Cmodel', async (route) => {
    asked += 1;
    if (asked === 1)
      return route.fulfill({ status: 503, json: { error: 'The store is away.', code: 'SERVICE_UNAVAILABLE' } });
    if (asked > 2) await held.promise;
    await route.continue();
  });
  await console.goTo('overview');
  await console.signIn('charted');
  const part = page.getByRole('region', { name: 'Requests over time' });
  await part.getByRole('radio', { name: 'model' }).check();
  await part.getByText('The store is away.').waitFor();
  await part.getByRole('button', { name: 'Try again' }).click();
  await part.getByText('The store is away.').waitFor({ state: 'detached' });
  const chart = part.getByRole('application', { name: /^Requests by model, each hour\. Most at / });
  await chart.waitFor();
  const again = page.waitForRequest((request) => request.url().endsWith('group_by=hour%2Cmodel'));
  await page.clock.runFor(100);
  await page.clock.fastForward(30_000);
  await again;
  t.true(await chart.isVisible());
  held.resolve();
  await page.unrouteAll({ behavior: 'ignoreErrors' });
  await console.requireClean(t);
});

browserTest('on #settings, the plan file is not read again while it is read', async (t) => {
  await using console = await openConsole();
  const { page } = console;
  await page.clock.install();
  const held = Promise.withResolvers<void>();
  let asked = 0;
  await page.route('**/admin/settings', async (route) => {
    asked += 1;
    await held.promise;
    await route.continue();
  });
  await console.goTo('settings');
  await console.signIn('olga');
  await page.getByText('Loading the plan file …').waitFor();
  for (let times = 0; times < 3; times += 1) await page.clock.runFor(5_000);
  t.is(asked, 1);
  held.resolve();
  await page.getByText('In force: version').waitFor();
  await page.unrouteAll({ behavior: 'ignoreErrors' });
  await console.requireClean(t);
});

/** Waits until a part of the page has been read once more. */
async function readAgain(page: Page, path: string, afterMs: number): Promise<void> {
  const read = page.waitForResponse((response) => new URL(response.url()).pathname.endsWith(path));
  await page.clock.runFor(100); // what was read before is on the page then
  await page.clock.fastForward(afterMs);
  await read;
}
