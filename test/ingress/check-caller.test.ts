import test from 'ava';
import { createCheckCaller } from '../../ingress/check-caller.ts';
import type { Caller } from '../../ingress/shared-callers.ts';
import { ApiError } from '../../shared/errors.ts';
import type { Admit } from '../../shared/limits/admit.ts';

const alice: Caller = { account: 'user:alice', keyId: 'key_1', plan: 'free', suspended: false, version: 4 };
const credential = { hashes: ['hash of a key'] };
const requestId = 'req_1';
const admission = { admittedAt: 1, startBy: 2, deadline: 3 };

type World = { present?: Caller | ApiError; fails?: ApiError };

/**
 * Admission that knows one version as the present one and takes whatever was just read, and a store that has `present`.
 * `calls` is what was asked of either, in order.
 */
function createSubject({ present = alice, fails }: World = {}) {
  const calls: string[] = [];
  const noted: string[] = [];
  const answer = (how: string, { account, requestId, version, reading }: Parameters<Admit['admit']>[0]) => {
    calls.push(`${how} ${account} ${version ?? 'none'}${reading === undefined ? '' : ` read under ${reading.token}`}`);
    if (fails !== undefined) throw fails;
    const isPresent = !(present instanceof ApiError) && version === present.version;
    return isPresent || reading !== undefined
      ? { outcome: 'current' as const }
      : { outcome: 'reread' as const, reading: { token: `a token for ${requestId}` } };
  };
  const { admit, look } = createCheckCaller({
    admit: {
      async admit(request) {
        const answered = answer('admit', request);
        return answered.outcome === 'current' ? { ...answered, admission } : answered;
      },
      look: async (request) => answer('look', request),
    },
    callers: {
      async reread() {
        calls.push('reread');
        if (present instanceof ApiError) throw present;
        return present;
      },
    },
    keyUse: { note: ({ keyId }) => void noted.push(String(keyId)) },
  });
  return { admit, look, calls, noted };
}

const takesAll = () => undefined;
const planLimit = () => new ApiError('rate_limit_exceeded', 'Not in this plan.');
const refuseFree = ({ plan }: Caller) => (plan === 'free' ? planLimit() : undefined);
const neverAdmits = (calls: string[]) => !calls.some((call) => call.startsWith('admit'));

test('a caller that is the present one costs one call, which admits', async (t) => {
  const { admit, calls, noted } = createSubject();
  t.deepEqual(await admit({ requestId, credential, caller: alice }, takesAll), { caller: alice, admission });
  t.deepEqual(calls, ['admit user:alice 4']);
  t.deepEqual(noted, ['key_1']);
});

test('looking costs one call as well, and admits nothing', async (t) => {
  const { look, calls, noted } = createSubject();
  t.is(await look({ requestId, credential, caller: alice }), alice);
  t.deepEqual(calls, ['look user:alice 4']);
  t.deepEqual(noted, ['key_1']);
});

test('a caller that was overtaken is read again, and the one that was read is taken', async (t) => {
  const present = { ...alice, plan: 'pro', version: 5 };
  const { admit, calls, noted } = createSubject({ present });
  t.deepEqual(await admit({ requestId, credential, caller: alice }, takesAll), { caller: present, admission });
  t.deepEqual(calls, ['admit user:alice 4', 'reread', 'admit user:alice 5 read under a token for req_1']);
  t.deepEqual(noted, ['key_1'], 'once');
});

test('an account that is not known here announces its reading first', async (t) => {
  const present = { account: 'user:bob', plan: 'free', suspended: false, version: 0 };
  const { look, calls } = createSubject({ present });
  t.is(await look({ requestId, credential: { account: 'user:bob' }, caller: undefined }), present);
  t.deepEqual(calls, ['look user:bob none', 'reread', 'look user:bob 0 read under a token for req_1']);
});

test('a key that has ended meanwhile is INVALID_KEY, and its use is not noted', async (t) => {
  for (const refuse of [takesAll, refuseFree]) {
    const { admit, look, noted } = createSubject({ present: new ApiError('INVALID_KEY', 'It ended.') });
    const request = { requestId, credential, caller: alice };
    t.is((await t.throwsAsync(admit(request, refuse), { instanceOf: ApiError }))?.code, 'INVALID_KEY');
    t.is((await t.throwsAsync(look(request), { instanceOf: ApiError }))?.code, 'INVALID_KEY');
    t.deepEqual(noted, []);
  }
});

test('what the route refuses is looked at and never admitted, and hears its refusal once its caller stands', async (t) => {
  const { admit, calls, noted } = createSubject();
  const error = await t.throwsAsync(admit({ requestId, credential, caller: alice }, refuseFree));
  t.like(error, { code: 'rate_limit_exceeded' });
  t.deepEqual(calls, ['look user:alice 4']);
  t.deepEqual(noted, [], 'a key that got nothing was not used');
});

test('a refusal that rests on a caller who was overtaken is not told: an account that was upgraded is admitted', async (t) => {
  const present = { ...alice, plan: 'pro', version: 5 };
  const { admit, calls } = createSubject({ present });
  t.deepEqual(await admit({ requestId, credential, caller: alice }, refuseFree), { caller: present, admission });
  t.deepEqual(calls, ['look user:alice 4', 'reread', 'admit user:alice 5 read under a token for req_1']);
});

test('an account whose plan was lowered meanwhile is refused, and not admitted first', async (t) => {
  const { admit, calls } = createSubject();
  const overtaken = { ...alice, plan: 'pro', version: 3 };
  const error = await t.throwsAsync(admit({ requestId, credential, caller: overtaken }, refuseFree));
  t.like(error, { code: 'rate_limit_exceeded' });
  t.deepEqual(calls, ['admit user:alice 3', 'reread', 'look user:alice 4 read under a token for req_1']);
});

test('a suspended account is FORBIDDEN, looked at or admitted, before anything else the route has against it', async (t) => {
  const suspended = { ...alice, suspended: true };
  const { admit, look, calls, noted } = createSubject({ present: suspended });
  const request = { requestId, credential, caller: suspended };
  for (const attempt of [admit(request, takesAll), admit(request, refuseFree), look(request)]) {
    t.is((await t.throwsAsync(attempt, { instanceOf: ApiError }))?.code, 'FORBIDDEN');
  }
  t.true(neverAdmits(calls));
  t.deepEqual(noted, []);
});

test('a suspension is felt, and its end, by a caller who was read before it', async (t) => {
  const suspended = createSubject({ present: { ...alice, suspended: true, version: 5 } });
  const error = await t.throwsAsync(suspended.admit({ requestId, credential, caller: alice }, takesAll));
  t.like(error, { code: 'FORBIDDEN' });
  t.deepEqual(suspended.calls, ['admit user:alice 4', 'reread', 'look user:alice 5 read under a token for req_1']);

  const free = createSubject({ present: { ...alice, version: 5 } });
  const caller = { ...alice, suspended: true };
  t.like(await free.admit({ requestId, credential, caller }, takesAll), { admission });
  t.deepEqual(free.calls, ['look user:alice 4', 'reread', 'admit user:alice 5 read under a token for req_1']);
});

test('a caller that was read and is not taken all the same is a fault of ours, and no admission', async (t) => {
  const admitted: boolean[] = [];
  const reread = async () => ({ outcome: 'reread' as const, reading: { token: 'a token' } });
  const { admit, look } = createCheckCaller({
    admit: { admit: reread, look: reread },
    callers: { reread: async () => alice },
    keyUse: { note: () => void admitted.push(true) },
  });
  const request = { requestId, credential, caller: alice };
  await t.throwsAsync(admit(request, takesAll), { message: /not taken/ });
  await t.throwsAsync(look(request), { message: /not taken/ });
  t.deepEqual(admitted, []);
});

test('while Redis or the store is away nobody is taken or refused: the failure is passed on', async (t) => {
  const unavailable = new ApiError('SERVICE_UNAVAILABLE', 'Away.');
  for (const world of [{ fails: unavailable }, { present: unavailable }]) {
    const { admit, look, noted } = createSubject(world);
    for (const caller of [alice, { ...alice, suspended: true }]) {
      const request = { requestId, credential, caller };
      t.is(await t.throwsAsync(admit(request, refuseFree)), unavailable);
      t.is(await t.throwsAsync(look(request)), unavailable);
    }
    t.deepEqual(noted, []);
  }
});
