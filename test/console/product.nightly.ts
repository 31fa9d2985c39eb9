import { createServer } from 'node:http';
import test from 'ava';
import { freePort } from '../stack/free-port.ts';
import { openBrowserTests } from '../support/browser/browser-tests.ts';

const port = await freePort();
const image = `<svg xmlns="http://www.w3.org/2000/svg" width="120" height="40"><rect width="120" height="40"/></svg>`;
const { browserTest, openConsole } = openBrowserTests(test, {
  env: {
    PRODUCT_NAME: 'Acme <b>AI</b>',
    PRODUCT_LOGO_URL: `http://127.0.0.1:${port}/logo.svg`,
    SUPPORT_URL: 'mailto:ai@example.com',
  },
});
const server = createServer((_, response) => response.setHeader('content-type', 'image/svg+xml').end(image));
test.before(() => void server.listen(port, '127.0.0.1'));
test.after.always(() => void server.close());

browserTest('the console shows the name and the logo of the product, and links to support', async (t) => {
  await using console = await openConsole();
  const { page } = console;
  await console.goTo('webhooks');
  await page.getByRole('heading', { name: 'Acme <b>AI</b> console', exact: true }).waitFor();
  t.is(await page.title(), 'Sign in · Acme <b>AI</b>');
  await console.signIn('customer');
  await page.getByRole('link', { name: 'Acme <b>AI</b>', exact: true }).waitFor();
  await page.getByText('user:customer', { exact: true }).waitFor();
  const logo = page.locator('.brand img');
  t.is(
    await logo.evaluate((element) => (element as unknown as { naturalWidth: number }).naturalWidth),
    120,
    'it is loaded',
  );
  t.is(await page.getByRole('link', { name: 'Support', exact: true }).getAttribute('href'), 'mailto:ai@example.com');
  t.is(
    await page.getByRole('link', { name: 'The operator of this service' }).getAttribute('href'),
    'mailto:ai@example.com',
  );

  await page.getByRole('link', { name: 'Documentation' }).click();
  await page.waitForURL(/\/docs/);
  t.true((await page.title()).endsWith(' – Acme <b>AI</b>'));
  t.is(
    await page
      .locator('.name img')
      .evaluate((element) => (element as unknown as { naturalWidth: number }).naturalWidth),
    120,
  );
});
