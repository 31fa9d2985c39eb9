import test from 'ava';
import { pageNames } from '../../../../ingress/documentation/page-list.ts';
import { findBarriers, type View, views } from '../../../support/browser/find-barriers.ts';
import { openDocumentationTests } from '../../../support/documentation/documentation-browser.ts';
import { sized } from '../../../support/size.ts';

const { browserTest, inBrowser } = openDocumentationTests(test, 'the documentation in a browser');
const reference = ['reference', 'reference/inference', 'reference/batches'];
const names = new Set([
  ...pageNames.slice(0, sized(3, pageNames.length)),
  'errors',
  'internals/glossary',
  ...reference,
]);

for (const view of views.slice(0, sized(1, views.length))) {
  const { colorScheme, viewport } = view;
  browserTest(`every page is accessible, ${colorScheme} and ${viewport.width} wide`, async (t) => {
    await inBrowser(t, view, async (page, url) => {
      for (const name of names) {
        await page.goto(`${url}/${name}`);
        t.deepEqual(await findBarriers(page, view), [], name);
        const overflow = await page.evaluate('document.documentElement.scrollWidth - innerWidth');
        t.is(overflow, 0, `${name} is not wider than the window`);
      }
    });
  });
}

const narrow: View = { colorScheme: 'light', viewport: { width: 390, height: 900 } };

browserTest('on a narrow screen the navigation is folded, and opens by keyboard', async (t) => {
  await inBrowser(t, narrow, async (page, url) => {
    await page.goto(`${url}/errors`);
    const all = page.getByRole('navigation', { name: 'All pages' });
    t.false(await all.isVisible());
    await page.getByText('All pages').focus();
    await page.keyboard.press('Enter');
    t.true(await all.getByRole('link', { name: 'Streaming' }).isVisible(), 'the group of the page is open');
    const endpoints = all.getByRole('list', { name: 'Endpoints' });
    t.false(await endpoints.isVisible());
    await all.getByText('Endpoints').focus();
    await page.keyboard.press('Enter');
    await endpoints.getByRole('link', { name: 'Embeddings' }).click();
    t.is(await page.locator('h1').innerText(), 'Embeddings');
    await page.getByText('All pages').click();
    await all.getByRole('link', { name: 'Run and operate it' }).click();
    t.is(await page.locator('h1').innerText(), 'Operating', 'pages for operators are a list of their own');
  });
});

browserTest('pages fit windows of every width down to 320', async (t) => {
  await inBrowser(t, {}, async (page, url) => {
    for (const width of [320, 360, 600, 832, 1024, 1200, 1920]) {
      await page.setViewportSize({ width, height: 900 });
      for (const name of ['errors', 'reference/inference']) {
        await page.goto(`${url}/${name}`);
        await page.getByRole('combobox').waitFor();
        t.is(await page.evaluate('document.documentElement.scrollWidth - innerWidth'), 0, `${name} at ${width}`);
      }
    }
  });
});

browserTest('the first keyboard stop skips to the content, and a link to an error shows it', async (t) => {
  await inBrowser(t, { colorScheme: 'dark' }, async (page, url) => {
    await page.goto(`${url}/limits`);
    await page.keyboard.press('Tab');
    await page.keyboard.press('Enter');
    t.is(await page.evaluate('document.activeElement.id'), 'content');
    for (const [address, heading] of [
      ['errors#plan_limit', '#plan_limit'],
      ['reference/keys#rotate-a-key', '#rotate-a-key'],
    ] as const) {
      await page.goto(`${url}/${address}`);
      await page.getByRole('combobox').waitFor();
      const { y = -1 } = (await page.locator(heading).boundingBox()) ?? {};
      t.true(y >= 50 && y < 850, `${address} is below the header, and visible: ${y}`);
    }
    await page.goto(`${url}/errors`);
    t.is(await page.locator('.pages.wide [aria-current="page"]').innerText(), 'Errors');
  });
});

browserTest(
  'without scripts all examples and pages can be read, and there are no controls that do nothing',
  async (t) => {
    await inBrowser(t, { javaScriptEnabled: false }, async (page, url) => {
      await page.goto(`${url}/quick-start`);
      t.true(await page.getByText('curl', { exact: true }).first().isVisible());
      for (const name of ['Node', 'Python'])
        t.true(await page.getByText(name, { exact: true }).first().isVisible(), name);
      t.true(await page.getByText('client = OpenAI').first().isVisible());
      t.true(await page.getByText('const client = new OpenAI').first().isVisible());
      for (const role of ['combobox', 'tab', 'button'] as const) t.is(await page.getByRole(role).count(), 0, role);
      await page.getByText('API reference').first().click();
      await page.goto(`${url}/reference/files`);
      t.true(await page.getByText('createReadStream').first().isVisible());
      await page.getByText('Fields of the answer').first().click();
      t.true(await page.getByText('expires_at').first().isVisible());
    });
  },
);
