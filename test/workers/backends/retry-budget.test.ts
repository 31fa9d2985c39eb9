import test from 'ava';
import { createRetryBudget } from '../../../workers/failover/find-answer.ts';

test('a fifth of all requests may try again, plus ten saved from quiet times', (t) => {
  const budget = createRetryBudget();
  let spent = 0;
  for (let requests = 0; requests < 1_000; requests++) {
    budget.earn();
    if (budget.spend()) spent++;
  }
  t.true(spent >= 208 && spent <= 210, `${spent} of 1,000`);
});

test('the saved budget is bounded', (t) => {
  const budget = createRetryBudget();
  for (let requests = 0; requests < 1_000; requests++) budget.earn();
  let spent = 0;
  while (budget.spend()) spent++;
  t.is(spent, 10);
});
