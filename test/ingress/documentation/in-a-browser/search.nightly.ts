import test from 'ava';
import type { BrowserContext, Page } from 'playwright-core';
import { findBarriers } from '../../../support/browser/find-barriers.ts';
import { openDocumentationTests } from '../../../support/documentation/documentation-browser.ts';

const { browserTest, inBrowser } = openDocumentationTests(test, 'the search of the documentation');

const field = (page: Page) => page.getByRole('combobox', { name: 'Search the documentation' });
const selected = (page: Page) => page.getByRole('option', { selected: true });
const isFocused = (page: Page) => page.evaluate<boolean>('document.activeElement.getAttribute("role") === "combobox"');

browserTest('by keyboard: a key focuses it, arrows select, Enter opens the part of the page', async (t) => {
  await inBrowser(t, {}, async (page, url) => {
    await page.goto(url);
    for (const key of ['/', 'Control+k', 'Meta+k']) {
      await field(page).evaluate((element) => element.blur());
      await page.keyboard.press(key);
      t.true(await isFocused(page), key);
    }
    t.is(await field(page).inputValue(), '', 'the key is not typed');
    await page.keyboard.type('rate_limit_exceeded');
    t.regex(await selected(page).innerText(), /^rate_limit_exceeded Errors/);
    t.is(await field(page).getAttribute('aria-expanded'), 'true');
    const active = async () => page.locator(`#${await field(page).getAttribute('aria-activedescendant')}`);
    t.is(await (await active()).getAttribute('aria-selected'), 'true');
    const count = await page.getByRole('option').count();
    t.true(count > 1);
    t.is(await page.locator('.search [role="status"]').innerText(), `${count} results`);
    await page.keyboard.press('ArrowUp');
    t.is(await selected(page).getAttribute('id'), `search-result-${count - 1}`, 'from the first to the last');
    await page.keyboard.press('ArrowDown');
    t.is(await selected(page).getAttribute('id'), 'search-result-0');
    await page.keyboard.press('ArrowDown');
    t.is(await selected(page).getAttribute('id'), 'search-result-1');
    await page.keyboard.press('ArrowUp');
    await page.keyboard.press('Enter');
    await page.waitForURL('**/errors#rate_limit_exceeded');
    t.true(await page.locator('#rate_limit_exceeded').isVisible());
  });
});

browserTest('Escape closes the results, then leaves the field; typing again opens them', async (t) => {
  await inBrowser(t, {}, async (page, url) => {
    await page.goto(url);
    await page.keyboard.press('/');
    await page.keyboard.type('webhook');
    await selected(page).waitFor();
    await page.keyboard.press('Escape');
    t.is(await page.getByRole('listbox').isVisible(), false);
    t.is(await field(page).inputValue(), 'webhook');
    t.true(await isFocused(page));
    await page.keyboard.press('Enter');
    t.is(page.url(), url, 'Enter opens nothing while no results are shown');
    await page.keyboard.type('s');
    await selected(page).waitFor();
    await page.keyboard.press('Escape');
    await page.keyboard.press('Escape');
    t.false(await isFocused(page));
    await page.keyboard.press('/');
    await page.keyboard.type('/v1/files');
    await selected(page).waitFor();
    t.is(await field(page).inputValue(), '/v1/files', 'a slash in the field is text');
    await page.keyboard.press('Tab');
    await page.getByRole('listbox').waitFor({ state: 'hidden' });
  });
});

browserTest('by mouse, on a phone: a result within the page and one of another page', async (t) => {
  await inBrowser(t, { viewport: { width: 390, height: 800 } }, async (page, url) => {
    await page.goto(`${url}/errors`);
    await field(page).click();
    await field(page).fill('quota_exceeded');
    await page.getByRole('option', { name: /^quota_exceeded Errors/ }).click();
    await page.waitForURL('**/errors#quota_exceeded');
    await page.getByRole('listbox').waitFor({ state: 'hidden' });
    await field(page).fill('cancel a batch');
    const option = page.getByRole('option', { name: /^Cancel a batch API reference: Batches/ });
    const box = await option.boundingBox();
    t.true(box !== null && box.x >= 0 && box.x + box.width <= 390, 'it fits the window');
    await option.click();
    await page.waitForURL('**/reference/batches#cancel-a-batch');
  });
});

browserTest('results have no accessibility barriers, light and dark', async (t) => {
  for (const colorScheme of ['light', 'dark'] as const) {
    for (const width of [1280, 390]) {
      await inBrowser(t, { colorScheme, viewport: { width, height: 900 } }, async (page, url) => {
        await page.goto(url);
        await page.keyboard.press('/');
        await page.keyboard.type('limit');
        await selected(page).waitFor();
        t.deepEqual(await findBarriers(page, { colorScheme: 'light' }), [], `${colorScheme} ${width}`);
        t.is(await page.evaluate('document.documentElement.scrollWidth - innerWidth'), 0);
      });
    }
  }
});

browserTest(
  'the index is loaded once, only when the search is used; without a result or the index it says so',
  async (t) => {
    await inBrowser(t, {}, async (page, url) => {
      const loads: string[] = [];
      page.on('request', (request) => {
        if (request.url().endsWith('.json')) loads.push(request.url());
      });
      await page.goto(url);
      await field(page).waitFor();
      t.is(loads.length, 0);
      await page.keyboard.press('/');
      await page.keyboard.type('xylophone');
      await page.getByText('No results.').waitFor();
      await page.keyboard.press('Enter');
      t.is(page.url(), url);
      await field(page).fill('key');
      await selected(page).waitFor();
      t.is(loads.length, 1);
      t.regex(loads[0] ?? '', /\/docs\/assets\/[\w-]{16}\/search-index\.json$/);
    });
  },
);

browserTest('if the index cannot be loaded, the search says so, and the next word tries again', async (t) => {
  let isAway = true;
  const before = async (context: BrowserContext) => {
    // A response of another release, as from an ingress that was not updated yet.
    await context.route('**/search-index.json', (route) =>
      isAway ? route.fulfill({ status: 200, body: 'not the index' }) : route.continue(),
    );
  };
  await inBrowser(t, { before }, async (page, url) => {
    await page.goto(url);
    await page.keyboard.press('/');
    await page.keyboard.type('key');
    await page.getByText('The search is not available right now. Reload the page.').waitFor();
    isAway = false;
    await page.keyboard.type('s');
    await selected(page).waitFor();
    t.pass();
  });
});
