import test from 'ava';
import type { Caller } from '../../../shared/caller.ts';
import { allowanceOf, batchAllowanceOf } from '../../../shared/limits/quota.ts';
import { parsePlanFile } from '../../../shared/plan-file/plan-file.ts';
import { planText } from '../../support/plan-text.ts';

const parsed = parsePlanFile(
  planText((plan) => {
    Object.assign(plan.plans.free, {
      requests_per_minute: 1,
      tokens_per_minute: 2,
      requests_per_day: 3,
      requests_at_once: 4,
      tokens_per_month: 5,
      overage_tokens_per_month: 8,
      batch_requests_at_once: 6,
    });
  }),
);
if (!('planFile' in parsed)) throw new Error('the plan file must be valid');
const { planFile } = parsed;
const topUp = { month: '2026-11', tokens: 7 };
const caller: Caller = { account: 'user:ann', plan: 'free', suspended: false, version: 1, overageEnabled: true, topUp };

test('a request has every limit of the caller’s plan, and the overage and top-up of its account', (t) => {
  t.deepEqual(allowanceOf(caller, planFile), {
    requestsPerMinute: 1,
    tokensPerMinute: 2,
    requestsPerDay: 3,
    requestsAtOnce: 4,
    tokensPerMonth: 5,
    overageEnabled: true,
    overageTokensPerMonth: 8,
    topUp,
  });
});

test('a batch line has the concurrency limit of batches, counts against the month, and has no other limit', (t) => {
  t.deepEqual(batchAllowanceOf(caller, planFile), {
    requestsAtOnce: 6,
    tokensPerMonth: 5,
    overageEnabled: true,
    overageTokensPerMonth: 8,
    topUp,
  });
});

test('a plan that is not in the plan file limits nothing', (t) => {
  const removed = { ...caller, plan: 'removed' };
  for (const limits of [allowanceOf(removed, planFile), batchAllowanceOf(removed, planFile)]) {
    const { overageEnabled, topUp: added, ...others } = limits;
    t.true(overageEnabled);
    t.is(added, topUp);
    t.true(Object.values(others).every((limit) => limit === undefined));
  }
});
