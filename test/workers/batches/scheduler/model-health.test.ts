import test from 'ava';
import { createModelHealth } from '../../../../workers/batches/scheduler/model-health.ts';

const now = 1_000_000;

function failing(times: number) {
  const health = createModelHealth();
  for (let failures = 0; failures < times; failures++) health.failed('m');
  return health;
}

test('a model is away after eight failures in a row, and no other is', (t) => {
  t.false(failing(7).isAway('m'));
  t.true(failing(8).isAway('m'));
  t.false(failing(8).isAway('other'));
});

test('one answer begins the row anew', (t) => {
  const health = failing(7);
  health.answered('m');
  health.failed('m');
  t.false(health.isAway('m'));
  const away = failing(20);
  away.answered('m');
  t.false(away.isAway('m'));
});

test('one that is away is tried once in three seconds, and one that is not needs no trying', (t) => {
  const health = failing(8);
  t.true(health.mayProbe('m', now));
  health.probed('m', now);
  t.false(health.mayProbe('m', now + 2_999));
  t.true(health.mayProbe('m', now + 3_000));
  t.false(health.mayProbe('other', now));
  health.failed('m');
  t.false(health.mayProbe('m', now + 2_999), 'a trying that fails changes nothing of that');
});
