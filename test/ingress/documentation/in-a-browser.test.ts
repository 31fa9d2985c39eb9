import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import test, { type ExecutionContext } from 'ava';
import type { AxeResults } from 'axe-core';
import type { Browser, Page } from 'playwright-core';
import { readPages, reference } from '../../../ingress/documentation/page-list.ts';
import { serveDocumentation } from '../../support/documentation/serve-documentation.ts';
import { openBrowser } from '../../support/open-browser.ts';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const names = [...readPages().map(({ name }) => name), reference.name];

let browser: Browser | undefined;
let site: Awaited<ReturnType<typeof serveDocumentation>>;

test.before(async () => {
  browser = await openBrowser();
  site = await serveDocumentation();
});
test.after.always(async () => {
  await browser?.close();
  await site?.[Symbol.asyncDispose]();
});

type Look = { scheme: 'light' | 'dark'; width: number };

/** Whether there is a browser to look with: it has to be there with CI=true. */
async function inBrowser(t: ExecutionContext, { scheme, width }: Look, look: (page: Page) => Promise<void>) {
  if (browser === undefined) {
    t.log('NOT RUN: there is no Chromium here');
    t.not(process.env.CI, 'true', 'pages have to be looked at');
    return;
  }
  const context = await browser.newContext({ colorScheme: scheme, viewport: { width, height: 900 } });
  try {
    await look(await context.newPage());
  } finally {
    await context.close();
  }
}

for (const scheme of ['light', 'dark'] as const) {
  for (const width of [1280, 390]) {
    test(`every page can be used by everybody, ${scheme} and ${width} wide, and asks no other host for anything`, async (t) => {
      await inBrowser(t, { scheme, width }, async (page) => {
        const told: string[] = [];
        page.on('console', (message) => told.push(message.text()));
        page.on('pageerror', (error) => told.push(error.message));
        page.on('requestfailed', (request) => told.push(`not loaded: ${request.url()}`));
        page.on('request', (request) => {
          if (new URL(request.url()).origin !== site.url) told.push(`asked elsewhere: ${request.url()}`);
        });
        for (const name of names) {
          await page.goto(`${site.url}/docs/${name}`);
          const { violations, passes } = (await page.evaluate(`${axe}; axe.run()`)) as AxeResults; // what axe.run resolves with
          t.true(passes.length > 20, `${name} was looked at`);
          t.deepEqual(
            violations.map(({ id, nodes }) => `${name}: ${id}: ${nodes[0]?.html}`),
            [],
          );
          t.is(
            await page.evaluate('document.documentElement.scrollWidth - innerWidth'),
            0,
            `${name} is as wide as the window`,
          );
        }
        t.deepEqual(told, []);
      });
    });
  }
}

test('on a narrow screen the navigation is folded, and opens by keyboard', async (t) => {
  await inBrowser(t, { scheme: 'light', width: 390 }, async (page) => {
    await page.goto(`${site.url}/docs/errors`);
    const link = page.getByRole('navigation', { name: 'All pages' }).getByRole('link', { name: 'Batches' });
    t.false(await link.isVisible());
    await page.getByText('All pages').focus();
    await page.keyboard.press('Enter');
    t.true(await link.isVisible());
    await link.click();
    t.is(await page.locator('h1').innerText(), 'Batches');
  });
});

test('who comes by keyboard skips to the content first, and a link to an error shows it', async (t) => {
  await inBrowser(t, { scheme: 'dark', width: 1280 }, async (page) => {
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
