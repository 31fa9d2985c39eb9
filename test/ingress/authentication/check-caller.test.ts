import test from 'ava';
import { createCheckCaller, type DecideCharge } from '../../../ingress/authentication/check-caller.ts';
import { ApiError } from '../../../shared/errors.ts';
import type { Claim } from '../../../shared/jobs/idempotency.ts';
import type { AdmitAnswer, LimitCounters, RepeatAnswer } from '../../../shared/limits/admission.ts';
import type { Look } from '../../../shared/limits/admit.ts';
import { createAskLimits } from '../../../shared/limits/ask-limits.ts';
import type { Caller } from '../../../shared/store/records/account.ts';
import { lostReport } from '../../support/limits-side.ts';

const alice: Caller = {
  account: 'user:alice',
  keyId: 'key_1',
  plan: 'free',
  suspended: false,
  version: 4,
  overageEnabled: false,
};
const credential = { hashes: ['hash of a key'] };
const requestId = 'req_1';
const from = { requestId, address: '192.0.2.1' };
const admission = { admittedAt: 1, startBy: 2, deadline: 3, overage: false };
const counters: LimitCounters = {
  now: 1,
  month: '2030-05',
  chargedTokens: 0,
  reservedTokens: 0,
  overageTokens: 0,
  lastMinute: { requests: 0, tokens: 0, resetMs: 0 },
  dayRequests: 0,
  isCountOld: false,
};

type World = {
  present?: Caller | ApiError;
  fails?: ApiError;
  cold?: boolean;
  admits?: AdmitAnswer;
  claimed?: RepeatAnswer;
};

/**
 * An admission that knows one version as the current one and accepts a caller that was just read, and a store that has `present`. `calls`
 * lists the calls of both, in order.
 */
function createSubject({ present = alice, fails, cold = false, admits, claimed }: World = {}) {
  const calls: string[] = [];
  const claims: (Claim | undefined)[] = [];
  const noted: string[] = [];
  let isCold = cold;
  /** The answer before the caller is current and its month is counted; undefined after that. */
  const before = (how: string, { account, requestId, version, reading }: Look) => {
    calls.push(`${how} ${account} ${version ?? 'none'}${reading === undefined ? '' : ` read under ${reading.token}`}`);
    if (fails !== undefined) throw fails;
    const isPresent = !(present instanceof ApiError) && version === present.version;
    if (!isPresent && reading === undefined)
      return { outcome: 'stale' as const, reading: { token: `a token for ${requestId}` } };
    return isCold && how !== 'look' ? { outcome: 'cold' as const, month: '2030-05' } : undefined;
  };
  const checkCaller = createCheckCaller({
    admit: {
      async admit(request) {
        claims.push(request.claim);
        return (
          before('admit', request) ??
          admits ?? { outcome: 'admitted', admission, counters, inFlight: 1, bytesReserved: 0 }
        );
      },
      readCounters: async ({ claim, ...request }) =>
        before(claim ? 'find claim' : 'readCounters', request) ??
        (claim && claimed) ?? { outcome: 'counters', counters },
      async look(request) {
        const answer = before('look', request);
        return answer?.outcome === 'stale' ? answer : { outcome: 'current', now: 1 };
      },
    },
    async release({ requestId, claim }) {
      calls.push(`release ${requestId}`);
      claims.push(claim as Claim | undefined);
      return 'released';
    },
    askLimits: createAskLimits({
      async seed({ account }, month) {
        calls.push(`seed ${account} ${month}`);
        isCold = false;
        return { before: undefined, after: { chargedTokens: 0, reservedTokens: 0, overageTokens: 0 } };
      },
      async reread() {
        calls.push('reread');
        if (present instanceof ApiError) throw present;
        return present;
      },
    }),
    keyUse: { note: ({ keyId }) => void noted.push(String(keyId)) },
  });
  return { ...checkCaller, calls, noted, claims };
}

const charge = { allowance: { overageEnabled: false }, reservedTokens: 1, report: lostReport };
const ask =
  (refuse: (caller: Caller) => ApiError | undefined): DecideCharge =>
  (caller) => {
    const refusal = refuse(caller);
    return refusal === undefined ? { charge } : { refusal };
  };
const takesAll = ask(() => undefined);
const planLimit = () => new ApiError('rate_limit_exceeded', 'Not in this plan.');
const refuseFree = ask(({ plan }) => (plan === 'free' ? planLimit() : undefined));
const neverAdmits = (calls: string[]) => !calls.some((call) => call.startsWith('admit'));
const admitted = (caller: Caller) => ({
  ...{ outcome: 'admitted', caller, admission, charge, counters },
  ...{ inFlight: 1, bytesReserved: 0 },
});

test('a current caller costs one call, which admits', async (t) => {
  const { admit, calls, noted } = createSubject();
  t.deepEqual(await admit({ ...from, credential, caller: alice }, takesAll), admitted(alice));
  t.deepEqual(calls, ['admit user:alice 4']);
  t.deepEqual(noted, ['key_1']);
});

test('a look costs one call, too, and admits nothing', async (t) => {
  const { look, calls, noted } = createSubject();
  t.deepEqual(await look({ ...from, credential, caller: alice }), { caller: alice, now: 1 });
  t.deepEqual(calls, ['look user:alice 4']);
  t.deepEqual(noted, ['key_1']);
});

test('a stale caller is read again, and the fresh one is accepted', async (t) => {
  const present = { ...alice, plan: 'pro', version: 5 };
  const { admit, calls, noted } = createSubject({ present });
  t.deepEqual(await admit({ ...from, credential, caller: alice }, takesAll), admitted(present));
  t.deepEqual(calls, ['admit user:alice 4', 'reread', 'admit user:alice 5 read under a token for req_1']);
  t.deepEqual(noted, ['key_1'], 'once');
});

test('an account that is not known here announces its read first', async (t) => {
  const present = { account: 'user:bob', plan: 'free', suspended: false, version: 0, overageEnabled: false };
  const { look, calls } = createSubject({ present });
  t.like(await look({ ...from, credential: { account: 'user:bob' }, caller: undefined }), { caller: present });
  t.deepEqual(calls, ['look user:bob none', 'reread', 'look user:bob 0 read under a token for req_1']);
});

test('a key that has ended meanwhile is INVALID_KEY, and its use is not recorded', async (t) => {
  for (const refuse of [takesAll, refuseFree]) {
    const { admit, look, noted } = createSubject({ present: new ApiError('INVALID_KEY', 'It ended.') });
    const request = { ...from, credential, caller: alice };
    t.is((await t.throwsAsync(admit(request, refuse), { instanceOf: ApiError }))?.code, 'INVALID_KEY');
    t.is((await t.throwsAsync(look(request), { instanceOf: ApiError }))?.code, 'INVALID_KEY');
    t.deepEqual(noted, []);
  }
});

test('a request that the route refuses is never admitted, and gets its refusal when its caller is current', async (t) => {
  const { admit, calls, noted } = createSubject();
  const checked = await admit({ ...from, credential, caller: alice }, refuseFree);
  t.like(checked, { outcome: 'refused', error: { code: 'rate_limit_exceeded' }, counters });
  t.deepEqual(calls, ['readCounters user:alice 4']);
  t.deepEqual(noted, [], 'a refused request is not a use of the key');
});

test('a refusal of a stale caller is not reported: an account that was upgraded is admitted', async (t) => {
  const present = { ...alice, plan: 'pro', version: 5 };
  const { admit, calls } = createSubject({ present });
  t.deepEqual(await admit({ ...from, credential, caller: alice }, refuseFree), admitted(present));
  t.deepEqual(calls, ['readCounters user:alice 4', 'reread', 'admit user:alice 5 read under a token for req_1']);
});

test('an account whose plan was lowered meanwhile is refused, and not admitted first', async (t) => {
  const { admit, calls } = createSubject();
  const overtaken = { ...alice, plan: 'pro', version: 3 };
  const checked = await admit({ ...from, credential, caller: overtaken }, refuseFree);
  t.like(checked, { outcome: 'refused', error: { code: 'rate_limit_exceeded' } });
  t.deepEqual(calls, ['admit user:alice 3', 'reread', 'readCounters user:alice 4 read under a token for req_1']);
});

test('a suspended account is FORBIDDEN for look and admit, before any other refusal of the route', async (t) => {
  const suspended = { ...alice, suspended: true };
  const { admit, look, readCounters, calls, noted } = createSubject({ present: suspended });
  const request = { ...from, credential, caller: suspended };
  for (const refuse of [takesAll, refuseFree]) {
    t.like(await admit(request, refuse), { outcome: 'refused', error: { code: 'FORBIDDEN' }, counters });
  }
  t.is((await t.throwsAsync(look(request), { instanceOf: ApiError }))?.code, 'FORBIDDEN');
  t.like(await readCounters(request), { caller: suspended, counters });
  t.true(neverAdmits(calls));
  t.deepEqual(noted, []);
});

test('a suspension and its end apply to a caller that was read before', async (t) => {
  const suspended = createSubject({ present: { ...alice, suspended: true, version: 5 } });
  const checked = await suspended.admit({ ...from, credential, caller: alice }, takesAll);
  t.like(checked, { outcome: 'refused', error: { code: 'FORBIDDEN' } });
  t.deepEqual(suspended.calls, [
    'admit user:alice 4',
    'reread',
    'readCounters user:alice 5 read under a token for req_1',
  ]);

  const free = createSubject({ present: { ...alice, version: 5 } });
  const caller = { ...alice, suspended: true };
  t.like(await free.admit({ ...from, credential, caller }, takesAll), { admission });
  t.deepEqual(free.calls, ['readCounters user:alice 4', 'reread', 'admit user:alice 5 read under a token for req_1']);
});

test('a month that is not counted is seeded once for all requests, which then continue', async (t) => {
  const { admit, calls } = createSubject({ cold: true });
  const request = { ...from, credential, caller: alice };
  t.deepEqual(await Promise.all([admit(request, takesAll), admit(request, takesAll)]), [
    admitted(alice),
    admitted(alice),
  ]);
  t.deepEqual(calls, [
    ...['admit user:alice 4', 'admit user:alice 4', 'seed user:alice 2030-05'],
    ...['admit user:alice 4', 'admit user:alice 4'],
  ]);
});

test('a stale caller with an uncounted month is read, seeded, and then checked again', async (t) => {
  const { admit, calls } = createSubject({ cold: true, present: { ...alice, version: 5 } });
  t.like(await admit({ ...from, credential, caller: alice }, takesAll), { outcome: 'admitted' });
  t.deepEqual(calls, [
    ...['admit user:alice 4', 'reread', 'admit user:alice 5 read under a token for req_1'],
    ...['seed user:alice 2030-05', 'admit user:alice 5'],
  ]);
});

test('a reached limit is reported with its wait, and the key counts as unused', async (t) => {
  const admits = { outcome: 'refused', limit: 'tokens', waitMs: 70, counters } as const;
  const { admit, noted } = createSubject({ admits });
  const checked = await admit({ ...from, credential, caller: alice }, takesAll);
  t.deepEqual(checked, { outcome: 'limited', limit: 'tokens', waitMs: 70, counters, caller: alice });
  t.deepEqual(noted, []);
});

test('a full outbox is 503, and so is a request that was ended before its admission', async (t) => {
  const full = createSubject({ admits: { outcome: 'full', counters } });
  const checked = await full.admit({ ...from, credential, caller: alice }, takesAll);
  t.like(checked, { outcome: 'refused', error: { code: 'SERVICE_UNAVAILABLE' }, counters });
  const ended = createSubject({ admits: { outcome: 'ended' } });
  const error = await t.throwsAsync(ended.admit({ ...from, credential, caller: alice }, takesAll));
  t.like(error, { code: 'SERVICE_UNAVAILABLE' });
  t.deepEqual([...full.noted, ...ended.noted], []);
});

test('an admission whose reply is lost is released, because it may have run', async (t) => {
  const unavailable = new ApiError('SERVICE_UNAVAILABLE', 'Unavailable.');
  const { admit, calls } = createSubject({ fails: unavailable });
  t.is(await t.throwsAsync(admit({ ...from, credential, caller: alice }, takesAll)), unavailable);
  t.deepEqual(calls, ['admit user:alice 4', 'release req_1']);
});

const claim: Claim = { idempotencyKey: 'order-17', bodyMarks: ['mark'], isStream: false };
const repeat = { outcome: 'repeated', how: 'kept', first: 'req_0', counters } as const;

test('a repeat costs one call, is a use of its key, and is not admitted', async (t) => {
  const { admit, calls, noted, claims } = createSubject({ admits: repeat });
  t.deepEqual(await admit({ ...from, credential, caller: alice, claim }, takesAll), { ...repeat, caller: alice });
  t.deepEqual([calls, claims], [['admit user:alice 4'], [claim]]);
  t.deepEqual(noted, ['key_1']);
});

test('a repeat that the route would refuse now gets its answer, and another request its refusal', async (t) => {
  const request = { ...from, credential, caller: alice, claim };
  const repeated = createSubject({ claimed: repeat });
  t.deepEqual(await repeated.admit(request, refuseFree), { ...repeat, caller: alice });
  t.deepEqual(repeated.calls, ['find claim user:alice 4']);
  const first = createSubject();
  t.like(await first.admit(request, refuseFree), { outcome: 'refused', error: { code: 'rate_limit_exceeded' } });
  t.deepEqual(first.calls, ['find claim user:alice 4']);
});

test('a repeat of a suspended account or of a key that has ended gets no answer', async (t) => {
  const request = { ...from, credential, caller: alice, claim };
  const suspended = createSubject({ present: { ...alice, suspended: true, version: 5 }, claimed: repeat });
  for (const refuse of [takesAll, refuseFree]) {
    t.like(await suspended.admit(request, refuse), { outcome: 'refused', error: { code: 'FORBIDDEN' } });
  }
  const ended = createSubject({ present: new ApiError('INVALID_KEY', 'It ended.'), claimed: repeat });
  t.like(await t.throwsAsync(ended.admit(request, takesAll)), { code: 'INVALID_KEY' });
  t.like(await t.throwsAsync(ended.admit(request, refuseFree)), { code: 'INVALID_KEY' });
  t.deepEqual([...suspended.noted, ...ended.noted], []);
});

test('a repeat that its key may not make any more gets no answer', async (t) => {
  const { admit, calls } = createSubject({ claimed: repeat });
  const refuse = ask(() => new ApiError('FORBIDDEN', 'Not for this key.'));
  const checked = await admit({ ...from, credential, caller: alice, claim }, refuse);
  t.like(checked, { outcome: 'refused', error: { code: 'FORBIDDEN' } });
  t.deepEqual(calls, ['readCounters user:alice 4']);
});

test('an admission whose reply is lost frees its idempotency key', async (t) => {
  const { admit, claims } = createSubject({ fails: new ApiError('SERVICE_UNAVAILABLE', 'Unavailable.') });
  await t.throwsAsync(admit({ ...from, credential, caller: alice, claim }, takesAll));
  t.deepEqual(claims, [claim, claim]);
});

test('only a bounded number of months is counted at once', async (t) => {
  const seeding = Promise.withResolvers<never>();
  const cold = async () => ({ outcome: 'cold' as const, month: '2030-05' });
  let seedings = 0;
  const { admit } = createCheckCaller({
    admit: { admit: cold, readCounters: cold, look: async () => ({ outcome: 'current', now: 1 }) },
    release: async () => 'released',
    askLimits: createAskLimits({
      seed: () => {
        seedings++;
        return seeding.promise;
      },
      reread: async () => alice,
    }),
    keyUse: { note: () => {} },
  });
  const ask = (account: string) => admit({ ...from, credential, caller: { ...alice, account } }, takesAll);
  const waiting = Array.from({ length: 64 }, (_, index) => ask(`user:${index}`));
  t.like(await t.throwsAsync(ask('user:one too many')), { code: 'SERVICE_UNAVAILABLE' });
  t.is(seedings, 64);
  seeding.reject(new ApiError('SERVICE_UNAVAILABLE', 'Unavailable.'));
  t.is((await Promise.allSettled(waiting)).length, 64);
  await t.throwsAsync(ask('user:later'));
  t.is(seedings, 65, 'others follow');
});

test('a caller that changes at each read is given up after a few reads, and not admitted', async (t) => {
  const stale = async () => ({ outcome: 'stale' as const, reading: { token: 'a token' } });
  const { admit, look } = createCheckCaller({
    admit: { admit: stale, look: stale, readCounters: stale },
    release: async () => 'released',
    askLimits: createAskLimits({
      seed: () => Promise.reject(new Error('no month is uncounted')),
      reread: async () => alice,
    }),
    keyUse: { note: () => t.fail() },
  });
  const request = { ...from, credential, caller: alice };
  t.like(await t.throwsAsync(admit(request, takesAll)), { code: 'SERVICE_UNAVAILABLE' });
  t.like(await t.throwsAsync(look(request)), { code: 'SERVICE_UNAVAILABLE' });
});

test('while Redis or the store is unavailable no caller is accepted or refused: the failure is passed on', async (t) => {
  const unavailable = new ApiError('SERVICE_UNAVAILABLE', 'Unavailable.');
  for (const world of [{ fails: unavailable }, { present: unavailable }]) {
    const { admit, look, noted } = createSubject(world);
    for (const caller of [alice, { ...alice, suspended: true }]) {
      const request = { ...from, credential, caller };
      t.is(await t.throwsAsync(admit(request, refuseFree)), unavailable);
      t.is(await t.throwsAsync(look(request)), unavailable);
    }
    t.deepEqual(noted, []);
  }
});

const keyOf = (keyScope: Caller['keyScope']): Caller => ({ ...alice, keyScope });

test('an ended further key is refused by every check, as expired or as unknown', async (t) => {
  const cases = [
    [{ expiresAt: 1 }, 'KEY_EXPIRED'],
    [{ expiresAt: 1, endsAt: 2 }, 'KEY_EXPIRED'],
    [{ expiresAt: 2, endsAt: 1 }, 'INVALID_KEY'],
    [{ endsAt: 1 }, 'INVALID_KEY'],
  ] as const;
  for (const [scope, code] of cases) {
    const caller = keyOf(scope);
    const { admit, look, readCounters, noted } = createSubject({ present: caller, admits: { outcome: 'expired' } });
    const request = { ...from, credential, caller };
    for (const checking of [
      admit(request, takesAll),
      admit(request, refuseFree),
      look(request),
      readCounters(request),
    ]) {
      await t.throwsAsync(checking, { code }, JSON.stringify(scope));
    }
    t.deepEqual(noted, []);
  }
  const lasting = keyOf({ expiresAt: 2, endsAt: 2 });
  t.like(await createSubject({ present: lasting }).look({ ...from, credential, caller: lasting }), { now: 1 });
});

test('a key that may not be used from this address is refused, with the counters of its account', async (t) => {
  const caller = keyOf({ allowedIps: ['203.0.113.0/24'] });
  const { admit, look, readCounters, calls, noted } = createSubject({ present: caller });
  const request = { ...from, credential, caller };
  t.like(await admit(request, takesAll), { outcome: 'refused', error: { code: 'FORBIDDEN' }, counters });
  await t.throwsAsync(look(request), { code: 'FORBIDDEN' });
  await readCounters(request);
  t.true(neverAdmits(calls));
  t.deepEqual(noted, []);
  const inside = { ...request, address: '203.0.113.9' };
  t.like(await admit(inside, takesAll), { outcome: 'admitted' });
});
