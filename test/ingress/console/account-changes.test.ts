import test from 'ava';
import { doneChange, isInForce } from '../../../ingress/console/operators/account-changes.ts';

const before = { plan: 'free', overageEnabled: false, suspended: false };

test('a change is taken back by its opposite, except added tokens and a first plan', (t) => {
  t.deepEqual(doneChange({ plan: 'pro' }, before), { words: 'The plan is pro now.', undo: { plan: 'free' } });
  t.deepEqual(doneChange({ plan: 'pro' }, { ...before, plan: '' }), { words: 'The plan is pro now.' });
  t.deepEqual(doneChange({ overageEnabled: true }, before), {
    words: 'Overage is on now.',
    undo: { overageEnabled: false },
  });
  t.deepEqual(doneChange({ suspended: true }, before), {
    words: 'The account is suspended now.',
    undo: { suspended: false },
  });
  t.deepEqual(doneChange({ topUp: { id: 'x', tokens: 12_345 } }, before), {
    words: '12,345 tokens were added to this month.',
  });
});

test('a change is in force until the account has another value', (t) => {
  const now = { plan: 'pro', overageEnabled: true, suspended: false };
  t.true(isInForce({ plan: 'pro' }, now));
  t.false(isInForce({ plan: 'free' }, now));
  t.true(isInForce({ overageEnabled: true }, now));
  t.false(isInForce({ overageEnabled: false }, now));
  t.true(isInForce({ suspended: false }, now));
  t.false(isInForce({ suspended: true }, now));
});
