import test from 'ava';
import { openBrowserTests } from '../support/browser/browser-tests.ts';

const { browserTestAlone, stack, openConsole } = openBrowserTests(test);

browserTestAlone('an API that is away is shown as that, and a page goes on when it is back', async (t) => {
  await using console = await openConsole();
  const { page } = console;
  await console.goTo('keys');
  await console.signIn('patient');
  await page.getByText('You have no key yet.').waitFor();
  console.expectFailures();
  const ingress = stack().ingresses.at(-1);
  ingress?.process.kill('SIGKILL');
  await ingress?.process.exited;
  await page.getByRole('button', { name: 'Mint a key' }).click();
  const failure = page.getByRole('alert');
  t.regex(await failure.innerText(), /The API cannot be reached\..*/);

  await page.getByRole('link', { name: 'Batches' }).click();
  await page.getByRole('alert').waitFor();
  await stack().startIngress();
  await page.getByRole('button', { name: 'Try again' }).click();
  await page.getByText('You have handed in no batch yet.').waitFor();
  await console.requireClean(t);
});

browserTestAlone('an issuer that is away is shown as that, signed in or not', async (t) => {
  await using console = await openConsole();
  const { page } = console;
  await console.goTo('keys');
  await console.signIn('stranded');
  await page.getByText('You have no key yet.').waitFor();
  console.expectFailures();
  await stack().identity[Symbol.asyncDispose]();

  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByText('You have signed out here. The sign-in provider could not be told').waitFor();
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByText('The sign-in provider cannot be reached').waitFor();
  await console.requireClean(t);
});
