import test from 'ava';
import { openBrowserTests } from '../support/browser/browser-tests.ts';
import { createKeyClient } from '../support/key-client.ts';

const { browserTestAlone, stack, openConsole } = openBrowserTests(test, {
  modelServers: { firstTokenMs: 20, tokensPerSecond: 200 },
});

const body = { model: 'small-chat', messages: [{ role: 'user', content: 'Hello' }], max_tokens: 20 };

browserTestAlone('an operator gets from "customer says 503" to its cause', async (t) => {
  const keys = createKeyClient(stack());
  const bearer = await keys.newKey('customer');
  for (const server of stack().modelServers) server.fail({ status: 500 });
  const ask = () => keys.send('POST', '/v1/chat/completions', { bearer, body });
  const failed = await ask();
  t.is(failed.status, 503);
  const requestId = failed.headers.get('x-request-id') ?? '';
  for (let asked = 0; asked < 12; asked += 1) t.is((await ask()).status, 503); // until the breakers are open

  await using console = await openConsole();
  const { page } = console;
  await console.goTo('overview');
  await console.signIn('olga');
  await page.keyboard.press('Control+k');
  await page.keyboard.type(requestId);
  await page.getByRole('option', { name: /in all accounts$/ }).click();
  await page.getByRole('heading', { name: `${requestId} failed` }).waitFor();
  const attempts = page.getByRole('table', { name: 'Calls of model servers, in order' });
  t.regex(await attempts.innerText(), /onprem-[\w-]+\s+on-prem/);
  await page.getByRole('link', { name: 'user:customer' }).waitFor();

  await page.getByRole('link', { name: 'Fleet' }).click();
  await page.getByText('small-chat is down: the breakers of all its backends are open.').waitFor();
  t.regex(await page.getByRole('table', { name: /^Backends by model/ }).innerText(), /small-chat\s+on-prem\s+open/);
  for (const server of stack().modelServers) server.fail({});
  await console.requireClean(t);
});

browserTestAlone('an operator finds an account by a key, and sees when nothing is found', async (t) => {
  const keys = createKeyClient(stack());
  const key = await keys.newKey('key-holder');
  await using console = await openConsole();
  const { page } = console;
  await console.goTo('find');
  await console.signIn('olga');
  await page.getByLabel('Account, key, request, batch or file').fill(key);
  await page.getByRole('button', { name: 'Find', exact: true }).click();
  await page.getByRole('heading', { name: 'user:key-holder' }).waitFor();
  await console.goTo('find?req_01KBN4V4W0R2E9Z6Y5QH3T8MXA');
  await page.getByText('is only in the log of its ingress').waitFor();
  await console.goTo('find?user%3Akey-');
  await page.getByRole('heading', { name: 'user:key-holder' }).waitFor();
  await console.requireClean(t);
});
