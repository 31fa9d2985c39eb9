import test from 'ava';
import type { CheckCaller } from '../../../ingress/authentication/check-caller.ts';
import { checkRefusedCaller } from '../../../ingress/middleware/authenticate.ts';
import type { AppContext, RequestState } from '../../../ingress/request-state.ts';
import { ApiError } from '../../../shared/errors.ts';
import type { LimitCounters } from '../../../shared/limits/admission.ts';
import { parsePlanFile } from '../../../shared/plan-file/plan-file.ts';
import type { Caller } from '../../../shared/store/records/account.ts';
import { planText } from '../../support/plan-text.ts';

const parsed = parsePlanFile(planText());
if ('issues' in parsed) throw new Error('the plan file of the tests is wrong');
const { planFile } = parsed;
const counters: LimitCounters = {
  ...{ now: 1, month: '2030-05', chargedTokens: 0, reservedTokens: 0, overageTokens: 0 },
  ...{ lastMinute: { requests: 0, tokens: 0, resetMs: 0 }, dayRequests: 0, isCountOld: false },
};
const callerWith = (suspended: boolean): Caller => ({
  ...{ account: 'user:alice', keyId: 'key_1', plan: 'free' },
  ...{ suspended, version: 1, overageEnabled: false },
});

/** The result for a request whose caller was found and may be suspended since, and whose next stage may fail. */
async function run({ found, now, fails }: { found: boolean; now: boolean; fails?: Error }) {
  const events: string[] = [];
  const checkCaller = {
    async readCounters() {
      events.push('look');
      return { caller: callerWith(now), counters };
    },
  } as unknown as CheckCaller; // the stage uses nothing else of it
  const headers: Record<string, string> = {};
  const state: RequestState = {
    planFile,
    requestId: 'req_1',
    address: '192.0.2.1',
    credential: { hashes: ['hash'] },
    callerCheck: 'due',
    caller: callerWith(found),
  };
  const ctx = { state, set: (set: object) => Object.assign(headers, set) } as unknown as AppContext; // all that it uses
  const error = await checkRefusedCaller({ checkCaller })(ctx, async () => {
    events.push(`next, suspended: ${state.caller?.suspended}`);
    if (fails !== undefined) throw fails;
  }).catch((thrown: unknown) => thrown);
  return { events, error, hasCounters: 'x-svc-quota-used' in headers };
}

test('the body of a suspended account is not read, and the response has its quota headers', async (t) => {
  const { events, error, hasCounters } = await run({ found: true, now: true });
  t.deepEqual(events, ['look']);
  t.like(error, { code: 'FORBIDDEN' });
  t.true(hasCounters);
});

test('a request of an account whose suspension was lifted elsewhere continues', async (t) => {
  const { events, error } = await run({ found: true, now: false });
  t.deepEqual(events, ['look', 'next, suspended: false']);
  t.is(error, undefined);
});

test('other requests are checked only when they are refused, and once', async (t) => {
  t.deepEqual((await run({ found: false, now: false })).events, ['next, suspended: false']);
  const fails = new ApiError('VALIDATION_ERROR', 'body: expected valid JSON');
  t.like(await run({ found: false, now: false, fails }), {
    events: ['next, suspended: false', 'look'],
    error: fails,
    hasCounters: true,
  });
  t.deepEqual((await run({ found: true, now: false, fails })).events, ['look', 'next, suspended: false']);
  t.like(await run({ found: false, now: true, fails }), { error: { code: 'FORBIDDEN' } });
});
