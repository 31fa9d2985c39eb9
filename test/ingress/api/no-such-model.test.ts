import test from 'ava';
import { noSuchModel } from '../../../ingress/api/plan-models.ts';
import { batchPlan } from '../../support/batch-plan.ts';

test('names the unknown model and the models of the plan', (t) => {
  const planFile = batchPlan();
  t.regex(
    noSuchModel('gpt-4', 'free', planFile),
    /^no such model "gpt-4"; the plan "free" has small-chat, medium-chat$/,
  );
  t.is(noSuchModel('gpt-4', 'gone', planFile), 'no such model "gpt-4"; the plan "gone" has no models');
  t.is(noSuchModel('a b'.repeat(100), 'gone', planFile).length, 88);
});

test('names only the first twenty of many models', (t) => {
  const planFile = batchPlan();
  const [model] = Object.values(planFile.models);
  if (model === undefined) return t.fail();
  const namesOf = (count: number) => Array.from({ length: count }, (_, index) => `model-${index}`);
  const planOf = (count: number) => ({
    plans: planFile.plans,
    models: Object.fromEntries(namesOf(count).map((name) => [name, { ...model, tier: 'guest' }])),
  });
  t.true(noSuchModel('x', 'free', planOf(20)).endsWith(` has ${namesOf(20).join(', ')}`));
  t.true(noSuchModel('x', 'free', planOf(23)).endsWith(` has ${namesOf(20).join(', ')} and 3 more`));
});
