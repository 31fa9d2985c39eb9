import test from 'ava';
import type { Page } from 'playwright-core';
import { openBrowserTests } from '../support/browser/browser-tests.ts';
import { createKeyClient } from '../support/key-client.ts';

const { browserTest, stack, openConsole } = openBrowserTests(test);

/** Pages of which each part is read every five seconds: who looks at it, one of its parts, and another one of them. */
const pages = {
  overview: { user: 'owner', path: '/billing/quota', what: 'your quota', other: '/billing/limits' },
  'accounts/user%3Apolled': { user: 'olga', path: '/quota', what: 'its quota', other: '/limits' },
};

for (const [fragment, { user, path, what, other }] of Object.entries(pages)) {
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
    for (let times = 0; times < 3; times += 1) await readAgain(page, other, 5_000);
    t.is(asked, 1);
    held.resolve();
    await page.getByRole('region', { name: 'This month' }).getByText('tokens used').waitFor();
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
    const failure = page.getByRole('region', { name: 'Limits in use now' }).locator('.failure');
    await failure.getByText('The store is away.').waitFor();
    await readAgain(page, other, 10_000);
    await failure.waitFor({ state: 'detached' });
    await readAgain(page, path, 5_000);
    await console.requireClean(t);
  });
}

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
