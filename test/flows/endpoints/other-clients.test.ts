import test from 'ava';
import { keyHeaders } from '../../../ingress/authentication/authorization.ts';
import { documentedRoutes } from '../../support/api-routes.ts';
import { openAccount } from '../../support/endpoints/open-account.ts';
import { everyEndpoint } from '../../support/every-endpoint.ts';
import { openSharedStack } from '../../support/shared-stack.ts';

const shared = openSharedStack(test, { models: everyEndpoint });
const version = { 'anthropic-version': '2023-06-01' };

test('every route that takes an API key takes it in three headers', async (t) => {
  const { key, url } = await openAccount(shared.stack(), 'clients-headers');
  const routes = Object.entries(documentedRoutes).filter(([, { access }]) =>
    ['key', 'either', 'account'].includes(access),
  );
  t.true(routes.length >= 20);
  for (const [route] of routes) {
    const [method = '', pattern = ''] = route.split(' ');
    const path = pattern.replace(/[:*]/g, '');
    const ask = async (headers: Record<string, string>) => {
      const body = method === 'POST' ? { body: '{}' } : {};
      const answer = await fetch(url + path, {
        method,
        ...body,
        headers: { 'content-type': 'application/json', ...headers },
      });
      await answer.body?.cancel();
      return answer.status;
    };
    const expected = await ask({ authorization: `Bearer ${key}` });
    t.not(expected, 401, route);
    for (const name of keyHeaders) {
      t.is(await ask({ [name]: key }), expected, `${route} ${name}`);
      t.is(await ask({ [name]: 'sk-ant-unknown' }), 401, `${route} ${name}`);
    }
  }
});

test('an unknown key in another header is INVALID_KEY, and two different credentials are INVALID_TOKEN', async (t) => {
  const { key, url, post } = await openAccount(shared.stack(), 'clients-wrong-keys');
  const other = (await openAccount(shared.stack(), 'clients-other-key')).key;
  const codeFor = async (headers: Record<string, string>) => {
    const answer = await fetch(`${url}/v1/models`, { headers });
    t.is(answer.headers.get('x-should-retry'), 'false');
    return ((await answer.json()) as { code: string }).code; // the service's own answer
  };
  for (const unknown of ['sk-ant-unknown', 'svc_0', `${key.slice(0, -1)}~`]) {
    t.is(await codeFor({ 'x-api-key': unknown }), 'INVALID_KEY', unknown);
  }
  t.is(await codeFor({ authorization: `Bearer ${key}`, 'x-api-key': other }), 'INVALID_TOKEN');
  t.is(await codeFor({ 'api-key': key, 'x-api-key': other }), 'INVALID_TOKEN');
  const messages = [{ role: 'user', content: 'Hi' }];
  const both = { authorization: `Bearer ${key}`, 'x-api-key': key };
  t.is((await post('/v1/chat/completions', { model: 'everything', messages }, both)).status, 200);
});

test("Anthropic's client lists and retrieves models with its own header, page by page", async (t) => {
  const { anthropic, key, url } = await openAccount(shared.stack(), 'clients-models');
  const all = await Array.fromAsync(anthropic.models.list());
  const ids = all.map(({ id }) => id);
  t.true(ids.includes('everything') && ids.length > 2);
  for (const model of all) {
    t.like(model, { type: 'model', display_name: model.id, created_at: '1970-01-01T00:00:00Z', lifecycle: 'active' });
  }
  t.deepEqual(
    (await Array.fromAsync(anthropic.models.list({ limit: 1 }))).map(({ id }) => id),
    ids,
  );
  t.deepEqual(
    (await Array.fromAsync(anthropic.beta.models.list({ limit: 1_000 }))).map(({ id }) => id),
    ids,
  );
  const before = await anthropic.models.list({ limit: 1, before_id: ids[2] ?? '' });
  t.like(before, { data: [{ id: ids[1] }], first_id: ids[1], last_id: ids[1], has_more: true });
  t.like(await anthropic.models.retrieve('everything'), {
    id: 'everything',
    type: 'model',
    max_tokens: all[0]?.max_tokens,
  });
  const unknown = await t.throwsAsync(anthropic.models.retrieve('none'));
  t.like(unknown, { status: 404, type: 'not_found_error' });
  for (const query of ['limit=0', 'limit=1001', 'after_id=none', 'before_id=none']) {
    const refused = await fetch(`${url}/v1/models?${query}`, { headers: { 'x-api-key': key, ...version } });
    t.is(refused.status, 400, query);
    t.like(await refused.json(), { type: 'error', error: { type: 'invalid_request_error' } }, query);
  }
});

test('models can be asked for with HEAD and with parameters of other services', async (t) => {
  const { key, url } = await openAccount(shared.stack(), 'clients-head');
  for (const headers of [{ 'x-api-key': key }, { authorization: `Bearer ${key}` }, { 'x-api-key': key, ...version }]) {
    const head = await fetch(`${url}/v1/models`, { method: 'HEAD', headers });
    t.is(head.status, 200);
    t.is(await head.text(), '');
    const list = await fetch(`${url}/v1/models?limit=1000`, { headers });
    t.is(list.status, 200);
    t.true(((await list.json()) as { data: { id: string }[] }).data.some(({ id }) => id === 'everything'));
    const invalid = await fetch(`${url}/v1/models?limit=x`, { headers });
    t.is(invalid.status, 'anthropic-version' in headers ? 400 : 200, 'parameters have an effect only with its header');
  }
});

test("rerank is also at the paths of Cohere's and other clients", async (t) => {
  const { post, assertCharged } = await openAccount(shared.stack(), 'clients-rerank');
  const asked = { model: 'everything', query: 'Where is Bonn?', documents: ['Bonn is on the Rhine.', 'Cats sleep.'] };
  const answers = [];
  for (const path of ['/v1/rerank', '/v2/rerank', '/rerank']) {
    const answer = await post(path, asked);
    t.is(answer.status, 200, path);
    answers.push((await answer.json()) as { results: object[]; usage: { total_tokens: number } });
  }
  const [first] = answers;
  for (const { results } of answers) t.deepEqual(results, first?.results);
  const promptTokens = 3 * (first?.usage.total_tokens ?? 0);
  await assertCharged(t, 3, { promptTokens, completionTokens: 0 });
});

test('a path with one wrong letter names the route that was meant', async (t) => {
  const { post } = await openAccount(shared.stack(), 'clients-paths');
  const answer = await post('/v1/chat/completion', {});
  t.is(answer.status, 404);
  t.like(await answer.json(), {
    error: 'There is nothing at /v1/chat/completion. Did you mean POST /v1/chat/completions?',
  });
  const nested = await post('/openai/v1/chat/completion', {});
  t.like(await nested.json(), { error: { code: 'NOT_FOUND', type: 'invalid_request_error' } });
});
