import type { ExecutionContext, TestFn } from 'ava';
import { type Browser, type BrowserContext, type BrowserContextOptions, chromium, type Page } from 'playwright-core';
import { findChromium, noChromium } from '../browser/find-chromium.ts';
import { openApiDocument } from '../documented/schema-faults.ts';
import { skipTest } from '../skip-test.ts';
import { serveDocumentation } from './serve-documentation.ts';

type Site = Awaited<ReturnType<typeof serveDocumentation>>;
type Wishes = BrowserContextOptions & { before?: (context: BrowserContext) => Promise<void> };
type Look = (page: Page, url: string) => Promise<void>;

const executablePath = await findChromium();

/** Allows many processes on a machine with few processors. */
const withinMs = 120_000;

/** Reports violations of the policy of a page. Runs in the page. */
const reportViolations = `document.addEventListener('securitypolicyviolation', ({ violatedDirective, blockedURI }) => {
  console.error('policy violation: ' + violatedDirective + ' ' + blockedURI);
});`;

/**
 * The documentation with the whole reference in a real browser, for the tests of one file, and a function to declare them. Without Chromium
 * they are skipped as `skipTest` says. No page may log anything, violate its policy, or contact another host.
 */
export function openDocumentationTests(test: TestFn, what: string) {
  if (executablePath === undefined) skipTest(test, { title: what, reason: noChromium });
  let browser: Browser;
  let site: Site;
  test.before(async () => {
    if (executablePath === undefined) return;
    browser = await chromium.launch({ executablePath, args: ['--no-sandbox'], timeout: withinMs });
    site = await serveDocumentation({ document: openApiDocument });
  });
  test.after.always(async () => {
    await browser?.close();
    await site?.[Symbol.asyncDispose]();
  });

  async function inBrowser(t: ExecutionContext, { before, ...options }: Wishes, look: Look): Promise<void> {
    const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
    context.setDefaultTimeout(withinMs);
    try {
      await before?.(context);
      const page = await context.newPage();
      const reported: string[] = [];
      if (options.javaScriptEnabled !== false) await page.addInitScript({ content: reportViolations });
      page.on('console', (message) => reported.push(message.text()));
      page.on('pageerror', (error) => reported.push(error.message));
      page.on('request', (request) => {
        if (new URL(request.url()).origin !== site.url) reported.push(`asked elsewhere: ${request.url()}`);
      });
      await look(page, `${site.url}/docs`);
      t.deepEqual(reported, []);
    } finally {
      await context.close();
    }
  }

  // One after another: they compute all the time.
  return { browserTest: executablePath === undefined ? test.skip : test.serial, inBrowser };
}
