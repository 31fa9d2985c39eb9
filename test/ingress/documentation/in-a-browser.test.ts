import test from 'ava';
import { type Browser, chromium, type Page } from 'playwright-core';
import { pageNames } from '../../../ingress/documentation/page-list.ts';
import { createRenderReference } from '../../../ingress/documentation/reference/render-reference.ts';
import { createOpenApiDocument } from '../../../ingress/openapi/document.ts';
import { findBarriers, type View, views } from '../../support/browser/find-barriers.ts';
import { findChromium, noChromium } from '../../support/browser/find-chromium.ts';
import { serveDocumentation } from '../../support/documentation/serve-documentation.ts';
import { sized } from '../../support/size.ts';
import { skipTest } from '../../support/skip-test.ts';

const addresses = { baseUrl: 'https://api.example.com', docsUrl: 'https://d.example', authUrl: 'https://a.example' };
const names = new Set([...pageNames.slice(0, sized(3, pageNames.length)), 'internals/glossary']);

const executablePath = await findChromium();
const browserTest = executablePath === undefined ? test.skip : test;
if (executablePath === undefined) skipTest(test, { title: 'the documentation in a browser', reason: noChromium });

let browser: Browser;
let site: Awaited<ReturnType<typeof serveDocumentation>>;

test.before(async () => {
  if (executablePath === undefined) return;
  browser = await chromium.launch({ executablePath, args: ['--no-sandbox'] });
  const document = createOpenApiDocument(addresses);
  site = await serveDocumentation({ renderReference: createRenderReference({ document }) });
});
test.after.always(async () => {
  await browser?.close();
  await site?.[Symbol.asyncDispose]();
});

async function inBrowser(view: View, look: (page: Page) => Promise<void>) {
  const context = await browser.newContext(view);
  try {
    await look(await context.newPage());
  } finally {
    await context.close();
  }
}

for (const view of views.slice(0, sized(1, views.length))) {
  const { colorScheme, viewport } = view;
  browserTest(
    `every page is accessible, ${colorScheme} and ${viewport.width} wide, and contacts no other host`,
    async (t) => {
      await inBrowser(view, async (page) => {
        const reported: string[] = [];
        page.on('console', (message) => reported.push(message.text()));
        page.on('pageerror', (error) => reported.push(error.message));
        page.on('requestfailed', (request) => reported.push(`not loaded: ${request.url()}`));
        page.on('request', (request) => {
          if (new URL(request.url()).origin !== site.url) reported.push(`asked elsewhere: ${request.url()}`);
        });
        for (const name of names) {
          await page.goto(`${site.url}/docs/${name}`);
          t.deepEqual(await findBarriers(page, view), [], name);
          const overflow = await page.evaluate('document.documentElement.scrollWidth - innerWidth');
          t.is(overflow, 0, `${name} is not wider than the window`);
        }
        t.deepEqual(reported, []);
      });
    },
  );
}

const wide: View = { colorScheme: 'dark', viewport: { width: 1280, height: 900 } };
const narrow: View = { colorScheme: 'light', viewport: { width: 390, height: 900 } };

browserTest('on a narrow screen the navigation is folded, and opens by keyboard', async (t) => {
  await inBrowser(narrow, async (page) => {
    await page.goto(`${site.url}/docs/errors`);
    const link = page.getByRole('navigation', { name: 'All pages' }).getByRole('link', { name: 'Batches' });
    t.false(await link.isVisible());
    await page.getByText('All pages').focus();
    await page.keyboard.press('Enter');
    t.true(await link.isVisible());
    const internals = page.getByRole('navigation', { name: 'All pages' }).getByRole('list', { name: 'Internals' });
    t.true(await internals.getByRole('link', { name: 'Glossary' }).isVisible());
    await link.click();
    t.is(await page.locator('h1').innerText(), 'Batches');
  });
});

browserTest('the first keyboard stop skips to the content, and a link to an error shows it', async (t) => {
  await inBrowser(wide, async (page) => {
    await page.goto(`${site.url}/docs/limits`);
    await page.keyboard.press('Tab');
    await page.keyboard.press('Enter');
    t.is(await page.evaluate('document.activeElement.id'), 'content');
    await page.goto(`${site.url}/docs/errors#plan_limit`);
    t.true(await page.locator('#plan_limit').isVisible());
    t.true(((await page.locator('#plan_limit').boundingBox())?.y ?? -1) >= 0);
    t.is(await page.locator('.pages.wide [aria-current="page"]').innerText(), 'Errors');
  });
});
