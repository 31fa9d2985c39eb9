import test from 'ava';
import { openBrowserTests } from '../support/browser/browser-tests.ts';

const { browserTestAlone, stack, openConsole } = openBrowserTests(test, {
  modelServers: { firstTokenMs: 50, tokensPerSecond: 12 },
  isOwn: true,
});

browserTestAlone('a response whose connection is lost says so, and the text received so far stays', async (t) => {
  await using console = await openConsole();
  const { page } = console;
  await console.goTo('try-it');
  await console.signIn('cut-off');
  await page.getByRole('textbox', { name: 'Message' }).fill('Say much. '.repeat(40));
  await page.getByRole('button', { name: 'Send' }).click();
  await page.getByText('Streaming …').waitFor();
  console.expectFailures();
  const ingress = stack().ingresses.at(-1);
  ingress?.process.kill('SIGKILL');
  await ingress?.process.exited;
  const failure = await page.locator('.failure').innerText();
  t.regex(
    failure,
    /The connection was lost before the response was complete\. Try again\.\s+200 cut off · request req_/,
  );
  t.true((await page.locator('.answer').innerText()).length > 0);
  await stack().startIngress();
  await console.requireClean(t);
});

browserTestAlone('another name of the same host redirects to the address that the issuer knows', async (t) => {
  await using console = await openConsole();
  await console.page.goto(`${console.url.replace('127.0.0.1', 'localhost')}#usage`);
  await console.page.waitForURL(`${console.url}#usage`);
  t.pass();
});

browserTestAlone('an unreachable API is reported, and a page continues when it is back', async (t) => {
  await using console = await openConsole();
  const { page } = console;
  await console.goTo('keys');
  await console.signIn('patient');
  await page.getByText('You have no key.').waitFor();
  console.expectFailures();
  const ingress = stack().ingresses.at(-1);
  ingress?.process.kill('SIGKILL');
  await ingress?.process.exited;
  await page.getByRole('button', { name: 'Create a key' }).click();
  await page.getByRole('dialog').getByLabel('Name').fill('patient');
  await page.getByRole('dialog').getByRole('button', { name: 'Create' }).click();
  const failure = page.locator('dialog .failure').last();
  t.regex(await failure.innerText(), /The API cannot be reached\..*/);
  await page.getByRole('button', { name: 'Go back' }).click();

  await page.getByRole('link', { name: 'Batches' }).click();
  await page.getByRole('button', { name: 'Try again' }).waitFor();
  await stack().startIngress();
  await page.getByRole('button', { name: 'Try again' }).click();
  await page.getByText('You have no batches yet.').waitFor();
  await console.requireClean(t);
});

browserTestAlone('an unreachable issuer is reported, signed in or not', async (t) => {
  await using console = await openConsole();
  const { page } = console;
  await console.goTo('keys');
  await console.signIn('stranded');
  await page.getByText('You have no key.').waitFor();
  console.expectFailures();
  await stack().identity[Symbol.asyncDispose]();

  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByText('You have signed out here. The sign-in provider could not be reached').waitFor();
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByText('The sign-in provider cannot be reached').waitFor();
  await console.requireClean(t);
});
