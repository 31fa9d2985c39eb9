import { defaultKeyOf } from '../../shared/store/records/key.ts';
import type { Store } from '../../shared/store/records/store.ts';
import { usageRecord } from '../shared/store/usage-records.ts';
import type { Route } from '../support/documented-answers.ts';
import { createFurtherKeyClient } from '../support/further-key-client.ts';
import type { KeyClient } from '../support/key-client.ts';
import {
  bodyCases,
  type Call,
  type Case,
  type Credentials,
  callTo,
  conflict,
  forbidden,
  invalid,
  notFound,
  ok,
  signedInCases,
} from './common-cases.ts';

type Actions = Awaited<ReturnType<typeof createActionCast>>;
type Cast = Credentials & {
  operator: string;
  spentRequest: string;
  cancellingBatch: string;
  batchesOver: string[];
} & Actions;

/** What operators can end. */
export async function createActionCast(keys: KeyClient, store: Store, device: string) {
  const helped = createFurtherKeyClient(keys, 'helped');
  const toEnd = await helped.create();
  await keys.newKey('helped');
  await keys.newKey('leaver');
  const byDefault = (await helped.list()).find((key) => key.default);
  const guestKeyId = defaultKeyOf(await store.accounts.findAccount(device))?.id ?? '';
  const line = usageRecord({ requestId: 'req_01KBN4V4W0R2E9Z6Y5QH3T8MXC-1', account: 'user:lines-only' });
  await store.usage.recordUsage([line]);
  return { keyToEnd: toEnd.id, defaultKeyToEnd: byDefault?.id ?? '', lineOfBatch: line.requestId, guestKeyId };
}

const unknownKey = 'key_01KBN4V4W0R2E9Z6Y5QH3T8MXA';

/** Cases of the routes with which operators end keys, batches and requests. `device` is the account of a guest. */
export function operatorActionCases(cast: Cast, device: string) {
  const operators = (call: Call, body?: object): Case[] => [
    ...signedInCases(call, cast, body),
    forbidden('no operator', call({ bearer: cast.token, body }), { says: 'an operator' }),
  ];
  const reasons = (as: (reason: unknown) => Buffer): Case[] => [
    ...['', 'x'.repeat(501), 'a\nb'].map((reason) =>
      invalid(`a reason that is not a line of text: ${JSON.stringify(reason).slice(0, 20)}`, as(reason), {
        says: 'reason: expected 1 to 500 characters, no control characters',
      }),
    ),
  ];
  const post = (path: string, body: unknown) => callTo('POST', path)({ bearer: cast.operator, body });
  const revoke = (id: string, account = 'user:helped', query = '') =>
    callTo('DELETE', `/admin/accounts/${account}/keys/${id}${query}`)({ bearer: cast.operator });
  const remove = (account: string, query = '') =>
    callTo('DELETE', `/admin/accounts/${account}${query}`)({ bearer: cast.operator });
  const batch = (id: string, body: unknown = {}) => post(`/admin/batches/${id}/cancel`, body);
  const request = (id: string, body: unknown = {}) => post(`/admin/requests/${id}/cancel`, body);
  const revoked = (id: string): Pick<Case, 'check'> => ({
    check(t, body) {
      const { keys, changes } = body as { keys: { id: string; state: string }[]; changes: object[] }; // its schema is checked
      t.is(keys.find((key) => key.id === id)?.state, 'revoked');
      t.is(changes.filter((change) => 'keyRevoked' in change && change.keyRevoked === id).length, 1);
    },
  });
  const pausing = '/admin/fleet/backends/onprem-a/pause';
  const pause = (body: unknown = { minutes: 1 }, of = 'onprem-a') => post(`/admin/fleet/backends/${of}/pause`, body);
  const resume = (query = '', of = 'onprem-a') =>
    callTo('DELETE', `/admin/fleet/backends/${of}/pause${query}`)({ bearer: cast.operator });
  const isPaused = (reason: string | null): Pick<Case, 'check'> => ({
    check: (t, body) => t.like(body, { backend: 'onprem-a', paused: { reason } }),
  });
  const isNotPaused: Pick<Case, 'check'> = { check: (t, body) => t.like(body, { paused: null }) };
  const noBackends = ['none', 'constructor', '%24ne', '__proto__', '%zz', 'a%2Fb'];
  const [firstOver = ''] = cast.batchesOver;
  return {
    'DELETE /admin/accounts/:account': [
      ...operators(callTo('DELETE', '/admin/accounts/user:helped')),
      ...reasons((reason) => remove('user:helped', `?reason=${encodeURIComponent(String(reason))}`)),
      invalid('an unknown parameter', remove('user:helped', '?why=x'), { says: 'why: is not known' }),
      ...['an account', 'the same again'].map((title) =>
        ok(title, remove('user:leaver', '?reason=left'), {
          check: (t, body) => void t.deepEqual(body, { object: 'account', account: 'user:leaver', deleted: true }),
        }),
      ),
      ...['user:unknown', 'x', '%24ne', '__proto__', '%zz'].map((account) =>
        notFound(`"${account}"`, remove(account), { says: 'no such account' }),
      ),
    ],
    'DELETE /admin/accounts/:account/keys/key_:key': [
      ...operators(callTo('DELETE', `/admin/accounts/user:helped/keys/${cast.keyToEnd}`)),
      ...reasons((reason) => revoke(cast.keyToEnd, 'user:helped', `?reason=${encodeURIComponent(String(reason))}`)),
      invalid('an unknown parameter', revoke(cast.keyToEnd, 'user:helped', '?why=x'), { says: 'why: is not known' }),
      ok('a further key', revoke(cast.keyToEnd, 'user:helped', '?reason=leaked'), revoked(cast.keyToEnd)),
      ok('the same again', revoke(cast.keyToEnd, 'user:helped', '?reason=again'), revoked(cast.keyToEnd)),
      ok('the default key', revoke(cast.defaultKeyToEnd), revoked(cast.defaultKeyToEnd)),
      ...[unknownKey, 'key_x', 'key_%24ne', 'key___proto__', 'key_%zz', cast.keyToEnd.toLowerCase()].map((id) =>
        notFound(`the key "${id}"`, revoke(id), { says: 'no such key' }),
      ),
      notFound("another account's key", revoke(cast.keyToEnd, 'user:alice'), { says: 'no such key' }),
      notFound('an unknown account', revoke(cast.keyToEnd, 'user:unknown'), { says: 'no such account' }),
      conflict('of a device', revoke(cast.guestKeyId, encodeURIComponent(device)), { says: 'Suspend the device.' }),
    ],
    'POST /admin/batches/:batch/cancel': [
      ...operators(callTo('POST', `/admin/batches/${firstOver}/cancel`), {}),
      ...bodyCases(callTo('POST', `/admin/batches/${cast.cancellingBatch}/cancel`), {}, cast.operator),
      ...reasons((reason) => batch(cast.cancellingBatch, { reason })),
      invalid('an unknown field', batch(cast.cancellingBatch, { why: 'x' }), { says: 'why: is not known' }),
      ok('a batch that is being cancelled', batch(cast.cancellingBatch, { reason: 'why' }), {
        check: (t, body) => void t.like(body, { id: cast.cancellingBatch, status: 'cancelling' }),
      }),
      ...cast.batchesOver.map((id) => conflict(`the finished batch ${id}`, batch(id), { says: 'cannot be cancelled' })),
      ...['batch_01KBN4V4W0R2E9Z6Y5QH3T8MXA', 'x', '%24ne', '%zz'].map((id) =>
        notFound(`"${id}"`, batch(id), { says: 'no such batch' }),
      ),
    ],
    'POST /admin/requests/:request/cancel': [
      ...operators(callTo('POST', `/admin/requests/${cast.spentRequest}/cancel`), {}),
      ...bodyCases(callTo('POST', `/admin/requests/${cast.spentRequest}/cancel`), {}, cast.operator),
      ...reasons((reason) => request(cast.spentRequest, { reason })),
      invalid('an unknown field', request(cast.spentRequest, { why: 'x' }), { says: 'why: is not known' }),
      ok('a request that has ended', request(cast.spentRequest, { reason: 'why' }), {
        check: (t, body) => void t.like(body, { id: cast.spentRequest, state: 'ended', outcome: 'completed' }),
      }),
      conflict('a line of a batch', request(cast.lineOfBatch), { says: 'Cancel its batch.' }),
      ...['req_01KBN4V4W0R2E9Z6Y5QH3T8MXA', 'x', 'chatcmpl-1', '%zz'].map((id) =>
        notFound(`"${id}"`, request(id), { says: 'only in the log' }),
      ),
    ],
    'POST /admin/fleet/backends/:backend/pause': [
      ...operators(callTo('POST', pausing), { minutes: 1 }),
      ...bodyCases(callTo('POST', pausing), { minutes: 1 }, cast.operator),
      ...reasons((reason) => pause({ minutes: 1, reason })),
      ...[0, 1_441, 1.5, '5', null].map((minutes) =>
        invalid(`${minutes} minutes`, pause({ minutes }), { says: 'minutes: ' }),
      ),
      invalid('no minutes', pause({}), { says: 'minutes: ' }),
      invalid('an unknown field', pause({ minutes: 1, until: 1 }), { says: 'until: is not known' }),
      ok('a day, with a reason', pause({ minutes: 1_440, reason: 'why' }), isPaused('why')),
      ok('a shorter one', pause(), isPaused(null)),
      ...noBackends.map((name) =>
        notFound(`the backend "${name}"`, pause(undefined, name), { says: 'no such backend' }),
      ),
    ],
    'DELETE /admin/fleet/backends/:backend/pause': [
      ...operators(callTo('DELETE', pausing)),
      ...reasons((reason) => resume(`?reason=${encodeURIComponent(String(reason))}`)),
      invalid('an unknown parameter', resume('?why=x'), { says: 'why: is not known' }),
      ok('one that is paused', resume('?reason=done'), isNotPaused),
      ok('one that is not', resume(), isNotPaused),
      ...noBackends.map((name) => notFound(`the backend "${name}"`, resume('', name), { says: 'no such backend' })),
    ],
  } satisfies Partial<Record<Route, Case[]>>;
}
