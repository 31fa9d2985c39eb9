import { type Case, type Credentials, callTo, eitherCases, invalid, notFound, ok } from './common-cases.ts';

type Cast = Credentials & { guestKey: string; newcomer: string; spentKey: string; spentRequest: string };

type Check = Pick<Case, 'check'>;

const wrongIds = [
  'req_01KBN4V4W0R2E9Z6Y5QH3T8MXA',
  'req_',
  'x',
  '%24ne',
  '__proto__',
  'a%2Fb',
  '%00',
  '%zz',
  '%',
  '%ED%A0%80',
  'x'.repeat(201),
  'x'.repeat(10_000),
];

/** Cases of the routes that find and list requests. `spentRequest` is the only request of its account. */
export function requestCases(cast: Cast) {
  const list = callTo('GET', '/v1/requests');
  const as = (query: string, bearer = cast.spentKey) => callTo('GET', `/v1/requests?${query}`)({ bearer });
  const find = (id: string, bearer = cast.spentKey) => callTo('GET', `/v1/requests/${id}`)({ bearer });
  const one: Check = { check: (t, body) => void t.like(body, { data: [{ id: cast.spentRequest }], has_more: false }) };
  const none: Check = {
    check: (t, body) => void t.like(body, { data: [], has_more: false, first_id: null, last_id: null }),
  };
  return {
    'GET /v1/requests': [
      ...eitherCases(list, cast),
      ok('a key', list({ bearer: cast.spentKey }), one),
      ok('a guest key', list({ bearer: cast.guestKey })),
      ok('a sign-in token', list({ bearer: cast.token })),
      ok('an account without any', list({ bearer: cast.newcomer }), none),
      ok('the maximum', as('limit=100'), one),
      ok('after the last', as(`after=${cast.spentRequest}`), none),
      ok('of a model', as('model=small-chat'), one),
      ok('of another model', as('model=medium-chat'), none),
      ok('of an unknown model', as('model=%F0%9F%99%82'), none),
      ok('with an outcome', as('outcome=completed'), one),
      ok('with another outcome', as('outcome=lost'), none),
      ok('of another key', as('key_id=x'), none),
      invalid('a limit of 101', as('limit=101'), { says: 'limit: expected a whole number from 1 to 100' }),
      ...['x', '', 'req_1', 'chatcmpl-1'].map((id) =>
        invalid(`after "${id}"`, as(`after=${id}`), { says: 'after: expected the id of a request' }),
      ),
      invalid('after an unknown request', as('after=req_01KBN4V4W0R2E9Z6Y5QH3T8MXA'), {
        says: 'after: there is no such request',
      }),
      invalid("after another account's", as(`after=${cast.spentRequest}`, cast.key), {
        says: 'after: there is no such request',
      }),
      ...['', 'done', 'Completed', 'queued'].map((outcome) =>
        invalid(`the outcome "${outcome}"`, as(`outcome=${outcome}`), {
          says: 'outcome: invalid option: expected one of',
        }),
      ),
      ...['model', 'key_id'].flatMap((name) => [
        invalid(`an empty ${name}`, as(`${name}=`), { says: `${name}: ` }),
        invalid(`a long ${name}`, as(`${name}=${'x'.repeat(129)}`), { says: `${name}: ` }),
      ]),
      invalid('an unknown parameter', as('state=queued'), { says: 'state: is not known' }),
    ],
    'GET /v1/requests/:request': [
      ...eitherCases(callTo('GET', `/v1/requests/${cast.spentRequest}`), cast),
      ok('its id', find(cast.spentRequest), {
        check: (t, body) => void t.like(body, { id: cast.spentRequest, state: 'ended', outcome: 'completed' }),
      }),
      ok('its id with a query', find(`${cast.spentRequest}?x=1`)),
      notFound("another account's", find(cast.spentRequest, cast.key), { says: 'There is no such request.' }),
      notFound('of a sign-in token of another account', find(cast.spentRequest, cast.token)),
      ...wrongIds.map((id) => notFound(`an unknown request: ${id.slice(0, 40)}`, find(id))),
    ],
  } satisfies Record<string, Case[]>;
}
