import test from 'ava';
import { createBackoff } from '../../../workers/batches/batch-steps.ts';

function open() {
  const clock = { ms: 0 };
  return { clock, backoff: createBackoff({ firstMs: 500, maxMs: 2_000, now: () => clock.ms }) };
}

test('the pause doubles with each failure, up to its maximum, for this name only', (t) => {
  const { clock, backoff } = open();
  for (const pauseMs of [500, 1_000, 2_000, 2_000]) {
    backoff.failed('one');
    t.false(backoff.waits('other'));
    clock.ms += pauseMs - 1;
    t.true(backoff.waits('one'));
    clock.ms += 1;
    t.false(backoff.waits('one'));
  }
});

test('a success resets the pause', (t) => {
  const { clock, backoff } = open();
  for (let failures = 0; failures < 3; failures++) backoff.failed('one');
  backoff.succeeded('one');
  t.false(backoff.waits('one'));
  backoff.failed('one');
  clock.ms += 500;
  t.false(backoff.waits('one'));
});

test('forgets all names except those to keep', (t) => {
  const { backoff } = open();
  for (const name of ['one', 'other']) backoff.failed(name);
  backoff.keepOnly(new Set(['other']));
  t.deepEqual([backoff.waits('one'), backoff.waits('other')], [false, true]);
});
