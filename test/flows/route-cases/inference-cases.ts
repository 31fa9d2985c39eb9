import { endpointNames, endpoints } from '../../../shared/endpoints/endpoints.ts';
import type { StackModel } from '../../stack/plan.ts';
import { documentedRoutes } from '../../support/api-routes.ts';
import type { Route } from '../../support/documented-answers.ts';
import { usedKeys } from '../../support/used-idempotency-keys.ts';
import { as, type Case, conflict, invalid, limited, mismatch, notFound, ok, resultLost, spent } from './case.ts';
import { goodBodyOf } from './common-cases.ts';
import type { Cast } from './open-cases.ts';

/** A model of the guests and one of another plan, which offer every endpoint. */
export const models: Record<string, StackModel> = {
  'small-chat': { tier: 'guest', pool: 'default', endpoints: endpointNames },
  'large-chat': { tier: 'premium', pool: 'large', endpoints: endpointNames },
};

/** The bodies of the cases, by path. */
export const bodies = new Map(endpoints.map(({ path }) => [path, bodyOf(path)]));

/** A valid body for the endpoint at this path. */
export function bodyOf(path: string): object {
  const route = documentedRoutes[`POST ${path}`];
  return (route && goodBodyOf(route)) ?? {};
}

/** What is special to the routes of models: endpoints, the models, and requests. */
export function inferenceCases(cast: Cast): Record<Route, Case[]> {
  return {
    ...Object.fromEntries(endpoints.map(({ path }) => [`POST ${path}`, endpointCases(path, cast)])),
    'GET /v1/models': [ok('parameters of Anthropic without its header', as(cast.key)('GET /v1/models?limit=x&y=1'))],
    'GET /v1/models/*model': modelCases(cast),
    'GET /v1/requests': requestListCases(cast),
    'GET /v1/requests/:request': requestCases(cast),
    'GET /admin/accounts/:account/requests': accountRequestCases(cast),
    'GET /admin/requests/:request': anyRequestCases(cast),
    'POST /admin/requests/:request/cancel': endRequestCases(cast),
  };
}

/** Anthropic's clients act on a 404. */
const unknownModel = (path: string) => (path.startsWith('/v1/messages') ? notFound : invalid);

function endpointCases(path: string, cast: Cast): Case[] {
  const body = bodyOf(path);
  const send = (changed: object, bearer = cast.key) => as(bearer)(`POST ${path}`, { ...body, ...changed });
  const keyed = (name: string) => as(cast.key)(`POST ${path}`, body, `Idempotency-Key: ${name}`);
  return [
    ok('a developer key', send({})),
    ok('a guest key', send({}, cast.guestKey)),
    spent('a used-up month', send({}, cast.spentKey)),
    invalid('no prompt', as(cast.key)(`POST ${path}`, { model: 'small-chat' }), ': expected '),
    // The plan file lists no endpoints of this model, so it offers only chat.
    ...(path === '/v1/chat/completions'
      ? []
      : [invalid('a model without it', send({ model: 'medium-chat' }), 'model: \\"medium-chat\\" does not offer ')]),
    unknownModel(path)(
      'an unknown model',
      send({ model: 'constructor' }),
      'here is no such model \\"constructor\\"; the plan \\"free\\" has small-chat, medium-chat',
    ),
    ok('an idempotency key', keyed(`${path}-${'x'.repeat(200)}`)),
    resultLost('the key of a lost answer', keyed(usedKeys.lost + path)),
    conflict('the key of a request that runs', keyed(usedKeys.running + path)),
    mismatch('the key of another body', keyed(usedKeys.other + path)),
    ...[cast.guestKey, cast.key].map((key) =>
      limited('a model outside the plan', send({ model: 'large-chat' }, key), (t, { error }) => {
        const { type, limit = type, retry_after_ms: wait } = error as Record<string, unknown>; // nested in each shape
        t.deepEqual([limit, wait], ['plan_limit', 0]);
      }),
    ),
  ];
}

function modelCases(cast: Cast): Case[] {
  const outside = 'There is no such model \\"large-chat\\"; the plan \\"free\\" has small-chat, medium-chat.';
  return [
    ok('a key', as(cast.key)('GET /v1/models/small-chat')),
    ok('a sign-in token', as(cast.token)('GET /v1/models/small-chat')),
    notFound('a model outside the plan', as(cast.key)('GET /v1/models/large-chat'), outside),
  ];
}

const unknown = 'req_01KBN4V4W0R2E9Z6Y5QH3T8MXA';
const none = { data: { length: 0 }, has_more: false, first_id: null, last_id: null };
const noRequest = 'after: there is no such request';

/** `spentRequest` is the only request of its account. */
function requestListCases(cast: Cast): Case[] {
  const list = (query: string, bearer = cast.spentKey) => as(bearer)(`GET /v1/requests?${query}`);
  const one = { data: [{ id: cast.spentRequest }], has_more: false };
  return [
    ok('an account without any', list('', cast.newcomer), none),
    ok('after the last', list(`after=${cast.spentRequest}`), none),
    ...['', 'model=small-chat', 'outcome=completed'].map((query) => ok(`with ${query}`, list(query), one)),
    ...['model=medium-chat', 'model=%F0%9F%99%82', 'outcome=lost', 'key_id=x'].map((query) =>
      ok(`with ${query}`, list(query), none),
    ),
    invalid('after an unknown request', list(`after=${unknown}`), noRequest),
    invalid("after another account's", list(`after=${cast.spentRequest}`, cast.key), noRequest),
  ];
}

function requestCases(cast: Cast): Case[] {
  const find = (id: string, bearer = cast.spentKey) => as(bearer)(`GET /v1/requests/${id}`);
  const shown = { id: cast.spentRequest, state: 'ended', outcome: 'completed' };
  return [
    ok('its id', find(cast.spentRequest), shown),
    ok('its id with a query', find(`${cast.spentRequest}?x=1`)),
    ...[cast.key, cast.token].map((other) =>
      notFound("another account's", find(cast.spentRequest, other), 'There is no such request.'),
    ),
    ...['req_', 'x'.repeat(201)].map((id) => notFound(`the request ${id.slice(0, 9)}`, find(id))),
  ];
}

const namesBackends: Case['expected'] = (t, body) => {
  const { data = [body] } = body as { data?: object[] }; // its schema is checked
  const attempts = data.flatMap((each) => (each as { attempts: { backend: string | null }[] }).attempts);
  t.true(attempts.length > 0 && attempts.every(({ backend }) => backend !== null));
};

function accountRequestCases(cast: Cast): Case[] {
  const list = (query = '', account = 'user:spent') =>
    as(cast.operator)(`GET /admin/accounts/${account}/requests${query}`);
  return [
    ok('an account', list(), { data: [{ id: cast.spentRequest, account: 'user:spent' }], has_more: false }),
    ok('with its backends', list(), namesBackends),
    ok('an account without any', list('', 'user:alice')),
    ok('with an outcome', list('?outcome=lost'), none),
    ok('an account without a document', list('?outcome=lost', 'user:lines-only'), none),
    invalid('after the request of another account', list(`?after=${cast.spentRequest}`, 'user:alice'), noRequest),
  ];
}

function anyRequestCases(cast: Cast): Case[] {
  const find = (id: string) => as(cast.operator)(`GET /admin/requests/${id}`);
  return [
    ok('of another account', find(cast.spentRequest), { id: cast.spentRequest, account: 'user:spent', state: 'ended' }),
    ok('with its backends', find(cast.spentRequest), namesBackends),
    ...[unknown, 'chatcmpl-1'].map((id) => notFound(`the request ${id}`, find(id), 'only in the log')),
  ];
}

function endRequestCases(cast: Cast): Case[] {
  const end = (id: string, body: object = {}) => as(cast.operator)(`POST /admin/requests/${id}/cancel`, body);
  const shown = { id: cast.spentRequest, state: 'ended', outcome: 'completed' };
  return [
    ok('a request that has ended', end(cast.spentRequest, { reason: 'why' }), shown),
    conflict('a line of a batch', end(cast.lineOfBatch), 'Cancel its batch.'),
    ...[unknown, 'chatcmpl-1'].map((id) => notFound(`the request ${id}`, end(id), 'only in the log')),
  ];
}
