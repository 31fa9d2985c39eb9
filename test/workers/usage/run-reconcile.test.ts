import test from 'ava';
import type { UsageSum } from '../../../shared/store/usage/usage-record.ts';
import { driftOf, type MonthCheck } from '../../../workers/usage/reconcile-month.ts';
import { reportOf } from '../../../workers/usage/run-reconcile.ts';
import { sumOf, usageRecord } from '../../shared/store/usage-records.ts';

const sum = sumOf([usageRecord({ chargedTokens: 40 })]);
const tokens = { chargedTokens: 40, reservedTokens: 0, overageTokens: 0 };

function checked(given: Partial<MonthCheck> = {}): MonthCheck {
  return {
    account: 'user:ann',
    month: '2026-12',
    kept: sum,
    recomputed: sum,
    wrongDetails: 0,
    counter: undefined,
    ...given,
  };
}

const charged = (chargedTokens: number): UsageSum => sumOf([usageRecord({ chargedTokens })]);

test('drift is the difference of a sum or a counter in charged tokens, and 0 for any other difference', (t) => {
  const counter = (counted: object) => ({ counted: { ...tokens, ...counted }, expected: tokens });
  t.is(driftOf(checked()), undefined);
  t.is(driftOf(checked({ counter: counter({}) })), undefined);
  t.is(driftOf(checked({ kept: { ...sum, lastEntry: 'another' } })), undefined);
  t.is(driftOf(checked({ kept: undefined, recomputed: undefined })), undefined);
  t.deepEqual(driftOf(checked({ kept: charged(45) })), { tokens: 5 });
  t.deepEqual(driftOf(checked({ kept: charged(33) })), { tokens: 7 });
  t.deepEqual(driftOf(checked({ kept: undefined })), { tokens: 40 });
  t.deepEqual(driftOf(checked({ wrongDetails: 1 })), { tokens: 0 });
  t.deepEqual(driftOf(checked({ kept: { ...sum, total: { ...sum.total, failed: 1 } } })), { tokens: 0 });
  t.deepEqual(driftOf(checked({ counter: counter({ chargedTokens: 31 }) })), { tokens: 9 });
  t.deepEqual(driftOf(checked({ counter: counter({ reservedTokens: 31 }) })), { tokens: 0 });
  t.deepEqual(driftOf(checked({ counter: counter({ overageTokens: 31 }) })), { tokens: 0 });
  t.deepEqual(driftOf(checked({ kept: charged(45), counter: counter({ chargedTokens: 45 }) })), { tokens: 5 });
  t.deepEqual(driftOf(checked({ kept: charged(45), counter: counter({ chargedTokens: 25 }) })), { tokens: 15 });
});

test('the report counts the months that it does not list, and its last line is the remaining drift', (t) => {
  const found = checked({ kept: undefined });
  const drifted = [
    { found, left: undefined },
    { found, left: found },
  ];
  const reconciled = {
    accounts: 9,
    months: 20,
    found: { months: 5, tokens: 200 },
    left: { months: 1, tokens: 40 },
    drifted,
  };
  const line =
    '  "user:ann" 2026-12: the store has nothing, recomputed 40 tokens of 1 requests; Redis does not count it';
  t.deepEqual(reportOf(reconciled, true), [
    'accounts checked: 9',
    'months checked: 20',
    `${line}; repaired`,
    `${line}; not repaired`,
    '  and 3 more',
    'found: 200 tokens in 5 account-months',
    'drift: 40 tokens in 1 account-months',
  ]);
});
