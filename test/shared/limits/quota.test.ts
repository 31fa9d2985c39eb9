import test from 'ava';
import { formatDuration, limitError, limitHeaders } from '../../../ingress/limits/limit-errors.ts';
import { errorBody, errorHeaders } from '../../../shared/errors.ts';
import type { LimitCounters } from '../../../shared/limits/admission.ts';
import type { Allowance } from '../../../shared/limits/admit.ts';
import { allowanceOf, batchAllowanceOf, isUsedUp, overageMaxOf, quotaOf } from '../../../shared/limits/quota.ts';
import { parsePlanFile } from '../../../shared/plan-file/plan-file.ts';
import type { Caller } from '../../../shared/store/records/account.ts';
import type { KeyLimits } from '../../../shared/store/records/key.ts';
import { planText } from '../../support/plan-text.ts';

const counters: LimitCounters = {
  now: Date.UTC(2030, 4, 15),
  month: '2030-05',
  chargedTokens: 700,
  reservedTokens: 200,
  overageTokens: 0,
  lastMinute: { requests: 3, tokens: 250, resetMs: 61_500 },
  dayRequests: 9,
  isCountOld: false,
};
const allowance: Allowance = {
  requestsPerMinute: 10,
  tokensPerMinute: 200,
  tokensPerMonth: 1_000,
  overageEnabled: false,
};

test('remaining is what is neither used nor reserved, and never negative', (t) => {
  t.like(quotaOf(counters, allowance), {
    limit: 1_000,
    chargedTokens: 700,
    reservedTokens: 200,
    remaining: 100,
    topUp: 0,
  });
  t.is(quotaOf({ ...counters, chargedTokens: 900 }, allowance).remaining, 0);
});

test('a top-up is part of the limit in its own month only', (t) => {
  const topUp = { month: '2030-05', tokens: 500 };
  t.like(quotaOf(counters, { ...allowance, topUp }), { limit: 1_500, remaining: 600, topUp: 500 });
  const past = { ...topUp, month: '2030-04' };
  t.like(quotaOf(counters, { ...allowance, topUp: past }), { limit: 1_000, remaining: 100, topUp: 0 });
});

test('without a limit none is reported, with or without a top-up', (t) => {
  const unlimited = { overageEnabled: false, topUp: { month: '2030-05', tokens: 500 } };
  t.like(quotaOf(counters, unlimited), { limit: null, remaining: null, chargedTokens: 700, topUp: 500 });
});

test('the bound of overage is reported, and applies if overage is on', (t) => {
  t.is(quotaOf(counters, allowance).overageLimit, null);
  const bounded = { ...allowance, overageTokensPerMonth: 300 };
  t.is(quotaOf(counters, bounded).overageLimit, 300);
  t.is(overageMaxOf(bounded), undefined);
  t.is(overageMaxOf({ ...bounded, overageEnabled: true }), 300);
});

test('a month is used up by what is used, without what is reserved, and with the overage that it has', (t) => {
  const isSpentBy = (chargedTokens: number, more: Partial<Allowance>, overageTokens = 0) =>
    isUsedUp({ ...counters, chargedTokens, overageTokens }, { ...allowance, ...more });
  t.deepEqual([isSpentBy(999, {}), isSpentBy(1_000, {})], [false, true]);
  t.false(isSpentBy(5_000, { overageEnabled: true }));
  t.false(isUsedUp(counters, { overageEnabled: false }));
  const bounded = { overageEnabled: true, overageTokensPerMonth: 300 };
  t.deepEqual([isSpentBy(1_299, bounded, 299), isSpentBy(1_300, bounded, 0)], [false, true]);
  const topUp = { month: counters.month, tokens: 500 };
  t.true(isSpentBy(1_500, { ...bounded, topUp }, 300), 'overage from before the top-up counts');
  t.false(isSpentBy(1_499, { ...bounded, topUp }, 300));
});

test('a period ends when the next begins, also at the end of a year', (t) => {
  t.deepEqual(quotaOf(counters, allowance).period, { start: '2030-05-01', end: '2030-06-01' });
  t.deepEqual(quotaOf({ ...counters, month: '2030-12' }, allowance).period, { start: '2030-12-01', end: '2031-01-01' });
});

test('headers report the month and the minute, with 0 remaining if a limit is exceeded', (t) => {
  t.deepEqual(limitHeaders(counters, allowance), {
    'x-svc-quota-limit': '1000',
    'x-svc-quota-used': '700',
    'x-svc-quota-remaining': '100',
    'x-svc-quota-reset': '2030-06-01',
    'x-svc-quota-overage': 'off',
    'x-ratelimit-limit-requests': '10',
    'x-ratelimit-remaining-requests': '7',
    'x-ratelimit-reset-requests': '1m1.5s',
    'x-ratelimit-limit-tokens': '200',
    'x-ratelimit-remaining-tokens': '0',
    'x-ratelimit-reset-tokens': '1m1.5s',
  });
  const none = limitHeaders(counters, { overageEnabled: true });
  t.is(none['x-svc-quota-overage'], 'on');
  for (const name of ['x-svc-quota-limit', 'x-svc-quota-remaining', 'x-ratelimit-limit-requests'])
    t.is(none[name], 'unlimited');
});

test('of the limits of an account and of its key, those that leave less are shown', (t) => {
  const key = {
    id: 'key_1',
    lastMinute: { requests: 1, tokens: 90, resetMs: 3_000 },
    chargedTokens: 0,
    reservedTokens: 0,
    overageTokens: 0,
    dayRequests: 0,
    isCountOld: false,
  };
  const shown = (keyLimits: KeyLimits) => {
    const headers = limitHeaders({ ...counters, key }, { ...allowance, tokensPerMinute: 1_000 }, keyLimits);
    return ['limit-requests', 'remaining-requests', 'reset-requests', 'limit-tokens', 'remaining-tokens'].map(
      (name) => headers[`x-ratelimit-${name}`],
    );
  };
  t.deepEqual(shown({}), ['10', '7', '1m1.5s', '1000', '750']);
  t.deepEqual(shown({ requestsPerMinute: 5, tokensPerMinute: 100 }), ['5', '4', '3s', '100', '10']);
  t.deepEqual(shown({ requestsPerMinute: 8, tokensPerMinute: 5_000 }), ['10', '7', '1m1.5s', '1000', '750']);
  t.deepEqual(shown({ tokensPerMinute: 800 }), ['10', '7', '1m1.5s', '800', '710'], 'less, because of what was used');
  const unlimited = limitHeaders({ ...counters, key }, { overageEnabled: false }, { requestsPerMinute: 1 });
  t.is(unlimited['x-ratelimit-remaining-requests'], '0');
});

test('durations have the format of OpenAI', (t) => {
  const written = [0, 12, 999, 1_000, 1_500, 59_999, 60_000, 360_000, 61_001].map(formatDuration);
  t.deepEqual(written, ['0ms', '12ms', '999ms', '1s', '1.5s', '59.999s', '1m0s', '6m0s', '1m1.001s']);
});

const limited = {
  counters,
  allowance: { ...allowance, requestsPerDay: 9, requestsAtOnce: 3 },
  keyLimits: { requestsPerMinute: 4, tokensPerMinute: 77 },
  topupUrl: 'https://x.test/',
};

test('each limit has its type, its number in the message, and one wait in three places', (t) => {
  const types = [
    ['requests', 'requests_limit', '10'],
    ['tokens', 'tokens_limit', '200'],
    ['day', 'daily_limit', '9'],
    ['concurrency', 'concurrency_limit', '3'],
    ['key_requests', 'key_requests_limit', '4'],
    ['key_tokens', 'key_tokens_limit', '77'],
  ] as const;
  for (const [limit, type, number] of types) {
    const error = limitError({ ...limited, limit, waitMs: 1_234 });
    const { error: body } = errorBody(error, 'https://docs.test') as { error: Record<string, unknown> }; // the code determines the nested shape
    t.like(body, { code: 'rate_limit_exceeded', type, retry_after_ms: 1_234 });
    t.true(String(body.message).includes(number));
    t.like(errorHeaders(error), { 'retry-after-ms': '1234', 'retry-after': '2' });
    t.is(errorHeaders(error)['x-should-retry'], undefined);
  }
  const share = (fairShare: number) => limitError({ ...limited, limit: 'concurrency', waitMs: 1_000, fairShare });
  t.regex(share(2).message, /may have 2 requests at once, waiting and running\./);
  t.regex(share(0).message, /waiting requests of this account take its share of memory\./);
  t.regex(share(3).message, /limit of 3/);
  t.like(errorHeaders(share(0)), { 'retry-after-ms': '1000', 'retry-after': '1' });
  const tomorrow = limitError({ ...limited, limit: 'day', waitMs: 60_001 });
  t.is(errorHeaders(tomorrow)['x-should-retry'], 'false');
});

test('a spent month reports its reset date and top-up address, and no wait', (t) => {
  for (const [limit, type] of [
    ['quota', 'quota_limit'],
    ['key_quota', 'key_quota_limit'],
  ] as const) {
    const error = limitError({ ...limited, limit, waitMs: 0 });
    const spent = { resetDate: '2030-06-01', topupUrl: 'https://x.test/', overageEnabled: false };
    t.like(errorBody(error, ''), { error: { code: 'quota_exceeded', type, ...spent } });
    t.deepEqual(errorHeaders(error), { 'x-should-retry': 'false' });
  }
});

test('the error of a spent month names the bound of its overage, if that is spent, too', (t) => {
  const bounded = { ...limited.allowance, overageTokensPerMonth: 300 };
  const messageOf = (overageEnabled: boolean) =>
    limitError({ ...limited, allowance: { ...bounded, overageEnabled }, limit: 'quota', waitMs: 0 }).message;
  const date = 'It resets on 2030-06-01.';
  t.is(messageOf(false), `The monthly quota is used up. ${date} Overage or a top-up lifts it earlier.`);
  t.is(
    messageOf(true),
    `The monthly quota is used up, and so are 300 tokens of overage. ${date} A top-up lifts it earlier.`,
  );
});

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

test('the account’s own bound of overage narrows that of its plan, and never widens it', (t) => {
  for (const [overageTokensMax, bound] of [
    [7, 7],
    [8, 8],
    [9, 8],
  ] as const)
    for (const allow of [allowanceOf, batchAllowanceOf])
      t.is(allow({ ...caller, overageTokensMax }, planFile).overageTokensPerMonth, bound);
  const { overageTokensPerMonth: _, ...unbounded } = planFile.plans.free ?? {};
  const bare = { modelTiers: [], overage: 'operator', priority: 0 } as const;
  const without = (plan: object) => ({ ...planFile, plans: { free: { ...bare, ...plan } } });
  t.is(allowanceOf({ ...caller, overageTokensMax: 7 }, without(unbounded)).overageTokensPerMonth, 7);
  t.is(allowanceOf(caller, without(unbounded)).overageTokensPerMonth, undefined);
  t.is(allowanceOf({ ...caller, overageTokensMax: 7 }, without({})).overageTokensPerMonth, undefined, 'no month');
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
