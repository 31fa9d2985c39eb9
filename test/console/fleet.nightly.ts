import test from 'ava';
import type { FleetView } from '../../ingress/routes/fleet.ts';
import { linesOf, openBatchClient } from '../support/batch-client.ts';
import { openBrowserTests } from '../support/browser/browser-tests.ts';
import { chat } from '../support/chat.ts';
import { createKeyClient } from '../support/key-client.ts';

const { browserTestAlone, stack, openConsole } = openBrowserTests(test, {
  modelServers: { firstTokenMs: 20, tokensPerSecond: 200 },
  env: { POOLS: 'default' },
});

const modelWithoutWorker = 'large-chat';

const body = { model: 'small-chat', messages: [{ role: 'user', content: 'Hello' }], max_tokens: 20 };

browserTestAlone('an operator gets from "customer says 503" to its cause', async (t) => {
  const keys = createKeyClient(stack());
  const bearer = await keys.newKey('customer');
  for (const server of stack().modelServers) server.fail({ status: 500 });
  const ask = (key: string) => keys.send('POST', '/v1/chat/completions', { bearer: key, body });
  const failed = await ask(bearer);
  t.is(failed.status, 503);
  const requestId = failed.headers.get('x-request-id') ?? '';
  // Until the breakers are open, which failures of one account do not do.
  const another = await keys.newKey('another-customer');
  for (let asked = 0; asked < 12; asked += 1) t.is((await ask(asked % 2 === 0 ? bearer : another)).status, 503);
  // Breakers open again after each probe, however long the browser takes.
  using _asking = keepAsking(() => ask(another));

  await using console = await openConsole();
  const { page } = console;
  await console.goTo('');
  await console.signIn('olga');
  await page.getByRole('heading', { name: 'Service', exact: true }).waitFor();
  const incident = page.getByRole('region', { name: /^small-chat\b.* cannot be answered$/ });
  await incident.getByText(/ since \d\d:\d\d \(\d+ (s|min)\)$/).waitFor();
  await incident
    .getByText(/\d+ requests of 2 accounts \(user:[\w-]+, user:[\w-]+\) got an error of the service in this hour\.$/)
    .waitFor();
  t.regex(await incident.innerText(), /onprem-a.*: HTTP 500 \(127\.0\.0\.1:\d+/);
  t.regex(
    (await incident.getByRole('link', { name: 'Runbook' }).getAttribute('href')) ?? '',
    /\/runbooks\/model-down$/,
  );
  await page
    .getByRole('region', { name: /^large-chat.* cannot be answered$/ })
    .getByText('has no worker')
    .waitFor();

  await page.getByRole('button', { name: /^onprem-a for small-chat: (paused after failures|being tested)/ }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByText('HTTP 500').waitFor();
  await dialog.getByRole('link', { name: /^req_/ }).click();
  await page.getByRole('heading', { name: /^req_\S+ 503 UPSTREAMS_EXHAUSTED$/ }).waitFor();

  await page.keyboard.press('Control+k');
  await page.locator('dialog input:focus').waitFor();
  await page.keyboard.type(requestId);
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: `${requestId} 503 UPSTREAMS_EXHAUSTED` }).waitFor();
  const attempts = page.getByRole('table', { name: 'Calls of model servers, in order' });
  t.regex(await attempts.innerText(), /onprem-[\w-]+\s+127\.0\.0\.1:\d+\s+on-prem/);
  await page.getByRole('link', { name: 'user:customer' }).first().click();
  await page.getByRole('region', { name: 'Errors of the last 24 hours' }).getByText('UPSTREAMS_EXHAUSTED').waitFor();

  await page.getByRole('link', { name: 'Fleet' }).click();
  const backends = page.getByRole('table', { name: /^Backends; calls/ });
  t.regex(await backends.innerText(), /onprem-a\s+on-prem[\s\S]*(paused after failures|being tested)\s+small-chat/);
  for (const server of stack().modelServers) server.fail({});
  await console.requireClean(t);
});

function keepAsking(ask: () => Promise<unknown>): Disposable {
  const timer = setInterval(() => void ask().catch(() => {}), 500);
  return { [Symbol.dispose]: () => clearInterval(timer) };
}

browserTestAlone('an incident of days ago has its date, and what cannot be counted says so', async (t) => {
  await using console = await openConsole();
  const { page } = console;
  console.expectFailures();
  const since = new Date(Date.now() - 2 * 86_400_000).toISOString();
  await page.route('**/admin/fleet', async (route) => {
    const response = await route.fetch();
    const fleet = (await response.json()) as FleetView;
    const failure = {
      ...{ at: since, request: 'req_1', outcome: 'failed', cause: 'connection refused' },
      ...{ status: null, rule: 'no-connection', address: '127.0.0.1:9' },
    };
    const broken = { breakers: { closed: 0, 'half-open': 0, open: 1 }, failing_since: since, last_failure: failure };
    const backends = fleet.backends.map(({ models, ...backend }) => ({
      ...backend,
      models: models.map((model) => ({ ...model, ...broken })),
    }));
    await route.fulfill({ response, json: { ...fleet, backends } });
  });
  const away = { status: 503, json: { error: 'The store is away.', code: 'SERVICE_UNAVAILABLE' } };
  await page.route('**/admin/usage?*', (route) => route.fulfill(away));
  await console.goTo('service');
  await console.signIn('olga');
  const incident = page.getByRole('region', { name: /^small-chat.* cannot be answered$/ });
  await incident.getByRole('heading', { name: / since \d+ [A-Z]\w+, \d\d:\d\d \(2 d\)$/ }).waitFor();
  await incident.getByText('The requests could not be counted. This is tried again.').waitFor();
  await page.getByText('not all could be read, trying again').waitFor();
  await page.unrouteAll({ behavior: 'ignoreErrors' });
  await page
    .getByText('The requests could not be counted. This is tried again.')
    .first()
    .waitFor({ state: 'detached' });
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

const ingressUrl = () => stack().ingresses[0]?.url ?? '';

/** Its breakers are closed, whatever the tests before have done. */
const model = 'medium-chat';

/** Answers that do not end until the client or an operator ends them. */
function answerEndlessly(): Disposable {
  for (const server of stack().modelServers) server.fail({ endless: true, chunkMs: 50 });
  return {
    [Symbol.dispose]() {
      for (const server of stack().modelServers) server.fail({});
    },
  };
}

browserTestAlone('an operator ends running requests, from the page of the account and from its own', async (t) => {
  using _endless = answerEndlessly();
  const keys = createKeyClient(stack());
  const key = await keys.newKey('busy-customer');
  const ask = (stream = true) =>
    chat({
      url: ingressUrl(),
      key,
      question: 'Go on',
      stream,
      model,
      fields: { max_tokens: 4_000 },
    });
  const [first, second] = [await ask(), await ask()];
  await using console = await openConsole();
  const { page } = console;
  await console.goTo('accounts/user%3Abusy-customer');
  await console.signIn('olga');
  const limits = page.getByRole('region', { name: 'Limits, highest in the last hour' });
  await limits
    .getByText(/^2, no limit$|^2 of /)
    .first()
    .waitFor();
  await page.getByRole('region', { name: 'This month' }).getByText('Plan free.').waitFor();
  const requests = page.getByRole('region', { name: 'Requests', exact: true });
  await requests.getByText('streaming').nth(1).waitFor();
  t.is(await requests.getByRole('button', { name: /^End req_/ }).count(), 2);

  const dialog = page.getByRole('dialog');
  const confirm = async (reason: string) => {
    await dialog.getByLabel('Reason (for the audit trail)').fill(reason);
    await dialog.getByRole('button', { name: 'End the request' }).click();
  };
  await requests
    .getByRole('button', { name: /^End req_/ })
    .last()
    .click();
  await confirm(' It blocks a model server. ');
  const said = page.getByText(/^The request req_\w+ (ends within two seconds|has ended)\.$/);
  await said.waitFor();
  t.regex(await first.text(), /An operator has ended this request/);
  await requests.getByText('cancelled').waitFor();
  await page.getByText(/^The request req_\w+ has ended\.$/).waitFor();
  await page.getByRole('cell', { name: 'It blocks a model server.', exact: true }).waitFor();

  await requests.getByRole('button', { name: /^End req_/ }).click();
  await said.waitFor({ state: 'detached' });
  await dialog.getByRole('button', { name: 'Go back' }).click();
  await requests.getByRole('row').filter({ hasText: 'streaming' }).getByRole('link', { name: /^req_/ }).click();
  await page.getByRole('heading', { name: /^req_\w+ streaming$/ }).waitFor();
  await page.getByRole('button', { name: /^End req_/ }).click();
  await confirm('This one, too.');
  await page.getByRole('heading', { name: /^req_\w+ cancelled$/ }).waitFor();
  t.regex(await second.text(), /An operator has ended this request/);
  t.is(await page.getByRole('button', { name: /^End req_/ }).count(), 0);

  await page.getByRole('link', { name: 'Audit trail' }).click();
  const row = page.getByRole('row').filter({ hasText: 'This one, too.' });
  t.regex(await row.innerText(), /user:olga\s+user:busy-customer\s+request ended:\s+req_/);
  await row.getByRole('link', { name: /^req_/ }).click();
  await page.getByRole('heading', { name: /^req_\w+ cancelled$/ }).waitFor();
  await console.requireClean(t);
});

browserTestAlone('an operator ends a request that waits, which leaves no record of usage', async (t) => {
  const keys = createKeyClient(stack());
  const key = await keys.newKey('waiting-customer');
  await keys.change('user:waiting-customer', { plan: 'pro' });
  const waiting = chat({ url: ingressUrl(), key, question: 'Wait', model: modelWithoutWorker });
  await using console = await openConsole();
  const { page } = console;
  await console.goTo('accounts/user%3Awaiting-customer');
  await console.signIn('olga');
  const requests = page.getByRole('region', { name: 'Requests', exact: true });
  await requests.getByRole('link', { name: /^req_/ }).click();
  await page.getByRole('heading', { name: /^req_\w+ queued$/ }).waitFor();
  console.expectFailures(); // it cannot be found any more
  await page.getByRole('button', { name: /^End req_/ }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'End the request' }).click();
  t.is((await waiting).status, 403);
  await page.getByText('It was ended while it waited').waitFor();
  t.is(await page.getByRole('button', { name: /^End req_/ }).count(), 0);
  await page.getByRole('link', { name: 'user:waiting-customer' }).click();
  await page.getByRole('cell', { name: /^request ended: req_/ }).waitFor();
  await page.getByText('It has sent no requests.').waitFor();
  await console.requireClean(t);
});

browserTestAlone('the page of a request continues after a failure, and the request can still be ended', async (t) => {
  using _endless = answerEndlessly();
  const keys = createKeyClient(stack());
  const key = await keys.newKey('patient-customer');
  const fields = { max_tokens: 4_000 };
  const answer = await chat({ url: ingressUrl(), key, question: 'Go on', stream: true, model, fields });
  const id = answer.headers.get('x-request-id') ?? '';
  await using console = await openConsole();
  const { page } = console;
  await page.clock.install();
  await console.goTo(`find/${id}`);
  await console.signIn('olga');
  await page.getByRole('heading', { name: `${id} streaming` }).waitFor();
  console.expectFailures();
  const body = { error: 'The store is away.', code: 'SERVICE_UNAVAILABLE' };
  await page.route(`**/admin/requests/${id}`, (route) => route.fulfill({ status: 503, json: body }), { times: 1 });
  await page.getByText('The store is away.').waitFor();
  await page.getByRole('button', { name: `End ${id}` }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Go back' }).click();
  await page.clock.fastForward(10_000);
  await page.getByText('The store is away.').waitFor({ state: 'detached' });
  await page.getByRole('button', { name: `End ${id}` }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'End the request' }).click();
  await page.getByRole('heading', { name: `${id} cancelled` }).waitFor();
  t.regex(await answer.text(), /An operator has ended this request/);
  await console.requireClean(t);
});

browserTestAlone('a request that an operator ends while it waits is not asked for any more', async (t) => {
  const keys = createKeyClient(stack());
  const key = await keys.newKey('queued-customer');
  await keys.change('user:queued-customer', { plan: 'pro' });
  const waiting = chat({ url: ingressUrl(), key, question: 'Wait', model: modelWithoutWorker });
  await using owner = await openConsole();
  await owner.goTo('requests');
  await owner.signIn('queued-customer');
  await owner.page.getByRole('link', { name: /^req_/ }).click();
  const heading = owner.page.getByRole('heading', { name: /^req_\w+ queued$/ });
  const [id = ''] = (await heading.innerText()).split(/\s/);
  await using operator = await openConsole();
  await operator.goTo(`find/${id}`);
  await operator.signIn('olga');
  await operator.page.getByRole('heading', { name: `${id} queued` }).waitFor();

  for (const each of [owner, operator]) {
    each.expectFailures();
    await each.page.clock.install();
  }
  const bearer = await keys.token('otto', true);
  t.is((await keys.send('POST', `/admin/requests/${id}/cancel`, { bearer, body: {} })).status, 200);
  t.is((await waiting).status, 403);
  for (const { page, requireClean } of [owner, operator]) {
    await page.getByText('It was ended while it waited: it has used nothing').waitFor();
    await page.getByRole('heading', { name: id, exact: true }).waitFor();
    t.is(await page.getByRole('button', { name: /^End req_/ }).count(), 0);
    let asked = 0;
    page.on('request', () => {
      asked += 1;
    });
    for (let times = 0; times < 3; times += 1) await page.clock.fastForward(10_000);
    t.is(asked, 0);
    await requireClean(t);
  }
});

browserTestAlone('an operator cancels a batch of an account', async (t) => {
  using _endless = answerEndlessly();
  const user = await openBatchClient(stack(), 'batch-customer');
  const { id } = await user.create(linesOf(40, { model, maxTokens: 2_000 }));
  await using console = await openConsole();
  const { page } = console;
  await console.goTo('accounts/user%3Abatch-customer');
  await console.signIn('olga');
  const requests = page.getByRole('region', { name: 'Requests', exact: true });
  await requests.getByText('line of a batch').first().waitFor();
  await page.getByRole('button', { name: 'Cancel in.jsonl' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByText(id).waitFor();
  await dialog.getByLabel('Reason (for the audit trail)').fill('too large');
  await dialog.getByRole('button', { name: 'Cancel the batch' }).click();
  await page.getByText(/^The batch in\.jsonl (is being cancelled|has ended)\.$/).waitFor();
  await page.getByRole('button', { name: 'Cancel in.jsonl' }).waitFor({ state: 'detached' });
  await page.getByRole('cell', { name: /^batch cancelled: batch_/ }).waitFor();
  t.regex((await user.client.batches.retrieve(id)).status, /^cancell/);
  await console.requireClean(t);
});

browserTestAlone(
  'what is wrong is announced when something else is wrong, and not when a number changes',
  async (t) => {
    await using console = await openConsole();
    const { page } = console;
    const models: object[] = [];
    await page.route('**/admin/fleet', async (route) => {
      const response = await route.fetch();
      const fleet = (await response.json()) as FleetView; // the service's own answer
      await route.fulfill({
        response,
        json: { ...fleet, backends: [], pools: [{ pool: 'slow', workers: 1, models }] },
      });
    });
    const waits = (model: string, oldest_ms: number) =>
      models.push({ model, queued: { interactive: 1, batch: 0 }, queue_max: 2_000, oldest_ms });
    waits('first', 6_000);
    await console.goTo('service');
    await console.signIn('olga');
    const announced = page.locator('main > .unseen[role="status"]');
    const seen = page.locator('.findings').getByRole('listitem');
    await seen.getByText('A request for first has waited 6.00 s for a worker.').waitFor();
    const atFirst = await announced.innerText();
    t.is(atFirst, 'A request for first has waited 6.00 s for a worker.');
    models.length = 0;
    waits('first', 7_000);
    await seen.getByText('A request for first has waited 7.00 s for a worker.').waitFor();
    t.is(await announced.innerText(), atFirst);
    waits('second', 6_000);
    await seen.getByText('A request for second').waitFor();
    t.regex(await announced.innerText(), /first has waited 7.* second has waited 6/);
    await page.unrouteAll({ behavior: 'ignoreErrors' });
    await console.requireClean(t);
  },
);
