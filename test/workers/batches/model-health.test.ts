import test from 'ava';
import {
  isUnavailable,
  type ModelHealth,
  mayProbe,
  withAnswer,
  withFailure,
  withProbe,
} from '../../../workers/batches/line-window.ts';

const now = 1_000_000;

function failing(times: number): ModelHealth {
  let health: ModelHealth = new Map();
  for (let failures = 0; failures < times; failures++) health = withFailure(health, 'm');
  return health;
}

test('only the model that failed eight times in a row is unavailable', (t) => {
  t.false(isUnavailable(failing(7), 'm'));
  t.true(isUnavailable(failing(8), 'm'));
  t.false(isUnavailable(failing(8), 'other'));
});

test('an answer resets the failures', (t) => {
  t.false(isUnavailable(withFailure(withAnswer(failing(7), 'm'), 'm'), 'm'));
  t.false(isUnavailable(withAnswer(failing(20), 'm'), 'm'));
});

test('an unavailable model is probed once in three seconds, also after a failed probe', (t) => {
  t.true(mayProbe(failing(8), 'm', now));
  const probed = withProbe(failing(8), 'm', now);
  t.false(mayProbe(probed, 'm', now + 2_999));
  t.true(mayProbe(probed, 'm', now + 3_000));
  t.false(mayProbe(withFailure(probed, 'm'), 'm', now + 2_999));
});

test('an available model is not probed', (t) => {
  t.false(mayProbe(failing(8), 'other', now));
  const available = failing(7);
  t.false(mayProbe(available, 'm', now));
  t.is(withProbe(available, 'm', now), available);
});
