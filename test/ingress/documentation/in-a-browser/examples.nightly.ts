import test, { type ExecutionContext } from 'ava';
import type { BrowserContext, Page } from 'playwright-core';
import { openDocumentationTests } from '../../../support/documentation/documentation-browser.ts';

const { browserTest, inBrowser } = openDocumentationTests(test, 'the examples of the documentation in a browser');

const tab = (page: Page, name: string) => page.getByRole('tab', { name }).first();
/** The languages that are shown, each once. */
const shownLanguages = async (page: Page) =>
  [...new Set(await page.getByRole('tab', { selected: true }).allInnerTexts())].sort();

async function showsOnly(t: ExecutionContext, page: Page, name: string): Promise<void> {
  t.deepEqual(await shownLanguages(page), [name]);
  for (const panel of await page.getByRole('tabpanel').all()) t.is(await panel.getAttribute('data-name'), name);
}

browserTest('a language is chosen for all examples, and remembered on other pages and after a reload', async (t) => {
  await inBrowser(t, {}, async (page, url) => {
    await page.goto(`${url}/reference/files`);
    await tab(page, 'curl').waitFor();
    await showsOnly(t, page, 'curl');
    t.true((await page.getByRole('tablist').count()) >= 3);
    await tab(page, 'Python').click();
    await showsOnly(t, page, 'Python');
    await page.goto(`${url}/reference/batches`);
    await tab(page, 'Python').waitFor();
    await showsOnly(t, page, 'Python');
    await page.reload();
    await tab(page, 'Python').waitFor();
    await showsOnly(t, page, 'Python');
    await page.goto(`${url}/find-a-request`);
    await tab(page, 'Python').waitFor();
    await tab(page, 'Node').click();
    await page.goto(`${url}/quick-start`);
    await tab(page, 'Node').waitFor();
    await showsOnly(t, page, 'Node');
  });
});

browserTest('an example without the chosen language shows its first', async (t) => {
  await inBrowser(t, {}, async (page, url) => {
    await page.goto(`${url}/quick-start`);
    await tab(page, 'curl').click();
    await page.goto(`${url}/find-a-request`);
    await tab(page, 'Node').waitFor();
    await showsOnly(t, page, 'Node');
  });
});

browserTest('tabs work by keyboard, and the example stays where it was', async (t) => {
  await inBrowser(t, {}, async (page, url) => {
    await page.goto(`${url}/reference/files`);
    const third = page.getByRole('tablist').nth(2);
    await third.scrollIntoViewIfNeeded();
    await third.getByRole('tab', { name: 'curl' }).focus();
    const before = (await third.boundingBox())?.y ?? 0;
    const focused = () => page.evaluate<string>('document.activeElement.innerText');
    for (const [key, name] of [
      ['ArrowRight', 'Node'],
      ['ArrowRight', 'Python'],
      ['ArrowRight', 'curl'],
      ['ArrowLeft', 'Python'],
      ['Home', 'curl'],
      ['End', 'Python'],
    ] as const) {
      await page.keyboard.press(key);
      t.is(await focused(), name, key);
      await showsOnly(t, page, name);
    }
    t.true(Math.abs(((await third.boundingBox())?.y ?? 0) - before) < 2);
    t.is(await third.getByRole('tab').evaluateAll((tabs) => tabs.filter((each) => each.tabIndex === 0).length), 1);
  });
});

/** A browser that keeps nothing for this host. */
const withoutStorage = async (context: BrowserContext) => {
  await context.addInitScript({
    content: `Object.defineProperty(window, 'localStorage', { get() { throw new DOMException('', 'SecurityError'); } });`,
  });
};

browserTest('where the browser keeps nothing, a choice applies to its page', async (t) => {
  await inBrowser(t, { before: withoutStorage }, async (page, url) => {
    await page.goto(`${url}/reference/files`);
    await tab(page, 'Node').click();
    await showsOnly(t, page, 'Node');
    await page.reload();
    await tab(page, 'Node').waitFor();
    await showsOnly(t, page, 'curl');
  });
});

browserTest('a button copies the code exactly, says so, and shows it', async (t) => {
  const permissions = ['clipboard-read', 'clipboard-write'];
  await inBrowser(t, { permissions }, async (page, url) => {
    await page.goto(`${url}/quick-start`);
    const block = page.locator('.code').first();
    const code = await block.locator('code').evaluate((element) => element.textContent);
    t.true(code?.startsWith('curl -s '));
    await block.getByRole('button', { name: 'Copy Code: Get a key' }).click();
    await page.getByText('Copied.').waitFor({ state: 'attached' });
    t.is(await page.evaluate('navigator.clipboard.readText()'), code);
    const blocks = await page.locator('.code').count();
    t.is(await page.locator('.code > button.copy').count(), blocks, 'every block has one');
  });
});

browserTest('a page is copied as Markdown by keyboard, and it says so', async (t) => {
  const permissions = ['clipboard-read', 'clipboard-write'];
  await inBrowser(t, { permissions }, async (page, url) => {
    await page.goto(`${url}/streaming`);
    await page.getByRole('button', { name: 'Copy page' }).focus();
    await page.keyboard.press('Enter');
    await page.getByRole('status').filter({ hasText: 'Copied.' }).waitFor();
    const copied = await page.evaluate<string>('navigator.clipboard.readText()');
    t.is(copied, await (await fetch(`${url}/streaming.md`)).text());
    t.true(copied.startsWith('# Streaming'));
  });
});

browserTest('where the browser does not allow to copy, the code is selected, and the page is a link', async (t) => {
  const before = async (context: BrowserContext) => {
    await context.addInitScript({ content: "Object.defineProperty(navigator, 'clipboard', { value: undefined });" });
  };
  await inBrowser(t, { before }, async (page, url) => {
    await page.goto(`${url}/errors#NO_AUTH`);
    await page.getByRole('button', { name: 'Copy Code: NO_AUTH' }).click();
    await page.getByText('The code is selected: copy it.').waitFor({ state: 'attached' });
    t.regex(await page.evaluate<string>('getSelection().toString()'), /"code": "NO_AUTH" \}$/);
    await page.getByRole('button', { name: 'Copy page' }).click();
    await page.getByText('It could not be copied. Copy it from here:').waitFor();
    t.is(await page.evaluate('document.activeElement.href'), `${url}/errors.md`);
  });
});
