import type { Route } from '../support/documented-answers.ts';
import {
  type Case,
  type Credentials,
  callTo,
  forbidden,
  invalid,
  notFound,
  ok,
  signedInCases,
} from './common-cases.ts';

type Cast = Credentials & {
  operator: string;
  spentRequest: string;
  spentKey: string;
  cancellingBatch: string;
  batchesOver: string[];
};

const unknownAccounts = ['user:unknown', 'alice', 'user:', '%24ne', '__proto__', '%zz'];

/** The cases of the routes with which operators look at the fleet and find what customers name. */
export function operatorViewCases(cast: Cast) {
  const fleet = callTo('GET', '/admin/fleet');
  const find = callTo('GET', '/admin/find');
  const finds = (text: string) =>
    callTo('GET', `/admin/find?${new URLSearchParams({ text })}`)({ bearer: cast.operator });
  const request = (id: string, bearer = cast.operator) => callTo('GET', `/admin/requests/${id}`)({ bearer });
  const batch = (id: string, bearer = cast.operator) => callTo('GET', `/admin/batches/${id}`)({ bearer });
  const of = (what: string, account: string, bearer = cast.operator) =>
    callTo('GET', `/admin/accounts/${account}/${what}`)({ bearer });
  const requests = (query = '', account = 'user:spent', bearer = cast.operator) =>
    of(`requests${query}`, account, bearer);
  const unknown = 'req_01KBN4V4W0R2E9Z6Y5QH3T8MXA';
  const shows = (expected: object): Pick<Case, 'check'> => ({ check: (t, body) => void t.like(body, expected) });
  return {
    'GET /admin/fleet': [
      ...signedInCases(fleet, cast),
      forbidden('no operator', fleet({ bearer: cast.token }), { says: 'an operator' }),
      ok('an operator', fleet({ bearer: cast.operator }), {
        check(t, body) {
          const { ingresses, workers, pools, backends } = body as Record<string, object[]>; // its schema is checked
          t.deepEqual([ingresses?.length, workers?.length], [1, 1]);
          t.like(pools?.[0], { pool: 'default', workers: 1 });
          t.true(Number(backends?.length) > 0);
        },
      }),
    ],
    'GET /admin/find': [
      ...signedInCases(find, cast),
      forbidden('no operator', find({ bearer: cast.token }), { says: 'an operator' }),
      invalid('no text', find({ bearer: cast.operator }), { says: 'text' }),
      invalid('an empty text', finds(' '), { says: 'text' }),
      invalid('a long text', finds('x'.repeat(301)), { says: 'text' }),
      ok('an account', finds('user:alice'), shows({ data: [{ kind: 'account', id: 'user:alice' }] })),
      ok('a name without its kind', finds('alice'), shows({ data: [{ kind: 'account', id: 'user:alice' }] })),
      ok('accounts of a kind', finds('user'), shows({ data: [{ kind: 'account' }] })),
      ok('a request', finds(cast.spentRequest), shows({ data: [{ kind: 'request', id: cast.spentRequest }] })),
      ok('the start of a key', finds(cast.spentKey.slice(0, 10)), shows({ data: [{ kind: 'key' }] })),
      ok(
        'a whole key, of which only the start is used',
        finds(cast.spentKey),
        shows({ data: [{ kind: 'key', id: cast.spentKey.slice(0, 10) }] }),
      ),
      ...[
        unknown,
        'batch_01KBN4V4W0R2E9Z6Y5QH3T8MXA',
        'file-01KBN4V4W0R2E9Z6Y5QH3T8MXA',
        'key_unknown',
        'not an account',
        'svc_%',
        '名前',
      ].map((text) => ok(`"${text}", which there is not`, finds(text), shows({ data: [] }))),
    ],
    'GET /admin/accounts/:account/requests': [
      ...signedInCases(callTo('GET', '/admin/accounts/user:spent/requests'), cast),
      forbidden('no operator', requests('', 'user:spent', cast.token), { says: 'an operator' }),
      ok('an account', requests(), {
        check(t, body) {
          t.like(body, { data: [{ id: cast.spentRequest, account: 'user:spent' }], has_more: false });
          const { data } = body as { data: { attempts: { backend: string | null }[] }[] }; // its schema is checked
          t.true(data[0]?.attempts.every(({ backend }) => backend !== null));
        },
      }),
      ok('an account without any', requests('', 'user:alice')),
      ok('with an outcome', requests('?outcome=lost'), shows({ data: [], last_id: null })),
      ok('an account without a document', requests('?outcome=lost', 'user:lines-only'), shows({ data: [] })),
      invalid('a limit of 0', requests('?limit=0'), { says: 'limit: expected a whole number from 1 to 100' }),
      invalid('after the request of another account', requests(`?after=${cast.spentRequest}`, 'user:alice'), {
        says: 'after: there is no such request',
      }),
      invalid('an unknown parameter', requests('?state=queued'), { says: 'state: is not known' }),
      ...unknownAccounts.map((path) => notFound(path, requests('', path), { says: 'no such account' })),
    ],
    'GET /admin/accounts/:account/batches': [
      ...signedInCases(callTo('GET', '/admin/accounts/user:filer/batches'), cast),
      forbidden('no operator', of('batches', 'user:filer', cast.token), { says: 'an operator' }),
      ok(
        'an account',
        of('batches?limit=1', 'user:filer'),
        shows({ data: [{ account: 'user:filer' }], has_more: true }),
      ),
      ok('an account without any', of('batches', 'user:alice'), shows({ data: [], has_more: false })),
      ok('an account without a document', of('batches', 'user:lines-only'), shows({ data: [] })),
      invalid('a limit of 0', of('batches?limit=0', 'user:filer'), {
        says: 'limit: expected a whole number from 1 to 100',
      }),
      invalid('after something else', of('batches?after=x', 'user:filer'), {
        says: 'after: expected the id of a batch',
      }),
      invalid('an unknown parameter', of('batches?status=failed', 'user:filer'), { says: 'status: is not known' }),
      ...unknownAccounts.map((path) => notFound(path, of('batches', path), { says: 'no such account' })),
    ],
    'GET /admin/batches/:batch': [
      ...signedInCases(callTo('GET', `/admin/batches/${cast.cancellingBatch}`), cast),
      forbidden('no operator', batch(cast.cancellingBatch, cast.token), { says: 'an operator' }),
      ok(
        'a batch of another account',
        batch(cast.cancellingBatch),
        shows({ id: cast.cancellingBatch, account: 'user:filer', status: 'cancelling' }),
      ),
      ...cast.batchesOver.map((id) => ok('a batch that is over', batch(id), shows({ id }))),
      ...['batch_01KBN4V4W0R2E9Z6Y5QH3T8MXA', 'x', '%24ne', '%zz'].map((id) =>
        notFound(`"${id}"`, batch(id), { says: 'no such batch' }),
      ),
    ],
    'GET /admin/accounts/:account/quota': [
      ...signedInCases(callTo('GET', '/admin/accounts/user:topped/quota'), cast),
      forbidden('no operator', of('quota', 'user:topped', cast.token), { says: 'an operator' }),
      ok('an account', of('quota', 'user:topped'), shows({ plan: 'free', topUp: 500, overageEnabled: true, used: 0 })),
      ok('a suspended account', of('quota', 'user:suspended')),
      ok('an account that has used its month', of('quota', 'user:spent'), shows({ limit: 1, remaining: 0 })),
      ...unknownAccounts.map((path) => notFound(path, of('quota', path), { says: 'no such account' })),
    ],
    'GET /admin/accounts/:account/limits': [
      ...signedInCases(callTo('GET', '/admin/accounts/user:topped/limits'), cast),
      forbidden('no operator', of('limits', 'user:topped', cast.token), { says: 'an operator' }),
      ok('an account', of('limits', 'user:topped'), shows({ plan: 'free', requestsAtOnce: { used: 0 } })),
      ok('a suspended account', of('limits', 'user:suspended')),
      ...unknownAccounts.map((path) => notFound(path, of('limits', path), { says: 'no such account' })),
    ],
    'GET /admin/requests/:request': [
      ...signedInCases(callTo('GET', `/admin/requests/${cast.spentRequest}`), cast),
      forbidden('no operator', request(cast.spentRequest, cast.token), { says: 'an operator' }),
      ok('a request of another account', request(cast.spentRequest), {
        check(t, body) {
          t.like(body, { id: cast.spentRequest, state: 'ended' });
          const { account, attempts } = body as { account: string; attempts: { backend: string | null }[] }; // its schema is checked
          t.true(account.startsWith('user:'));
          t.true(attempts.length > 0 && attempts.every(({ backend }) => backend !== null));
        },
      }),
      ...[unknown, 'x', 'chatcmpl-1'].map((id) => notFound(`"${id}"`, request(id), { says: 'only in the log' })),
    ],
  } satisfies Partial<Record<Route, Case[]>>;
}
