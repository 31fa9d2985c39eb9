import test from 'ava';
import { createPauses } from '../../../workers/backends/pauses.ts';

function open() {
  let time = 0;
  const pauses = createPauses(() => time);
  return {
    pauses,
    pass: (ms: number) => {
      time += ms;
    },
    left: () => pauses.of('a')?.leftMs,
  };
}

test('a busy backend pauses as long as it asks, a minute at most', (t) => {
  const { pauses, left, pass } = open();
  pauses.busy('a', 20_000);
  t.is(left(), 20_000);
  t.true(pauses.delays('a'));
  t.false(pauses.refuses('a'));
  t.false(pauses.delays('b'));
  pass(20_000);
  t.false(pauses.delays('a'));
  t.is(left(), undefined);
  pauses.busy('a', 86_400_000);
  t.is(left(), 60_000);
});

test('a backend that does not say how long pauses for 0.25 s, twice as long each time while it stays busy, 2 s at most', (t) => {
  const { pauses, left, pass } = open();
  const seen: (number | undefined)[] = [];
  for (let times = 0; times < 6; times++) {
    pauses.busy('a', undefined);
    seen.push(left());
    pass(left() ?? 0);
  }
  t.deepEqual(seen, [250, 500, 1_000, 2_000, 2_000, 2_000]);
  pass(1_000);
  pauses.busy('a', undefined);
  t.is(left(), 250, 'it was well for a second');
});

test('calls that are refused together make one pause', (t) => {
  const { pauses, left, pass } = open();
  for (let calls = 0; calls < 50; calls++) pauses.busy('a', undefined);
  t.is(left(), 250);
  pass(100);
  pauses.busy('a', undefined);
  t.is(left(), 150);
});

test('a model that loads delays for a second, and an account that is refused for 30 s as if the breaker were open', (t) => {
  const { pauses, pass } = open();
  pauses.loading('a');
  t.deepEqual(pauses.of('a'), { kind: 'loading', leftMs: 1_000 });
  t.true(pauses.delays('a'));
  pauses.refusesAccount('a');
  t.deepEqual(pauses.of('a'), { kind: 'account', leftMs: 30_000 });
  t.true(pauses.refuses('a'));
  pass(1_000);
  t.false(pauses.delays('a'));
  t.true(pauses.refuses('a'));
  pass(29_000);
  t.false(pauses.refuses('a'));
});

test('what the fleet knows is taken over if it is longer', (t) => {
  const { pauses, left } = open();
  pauses.busy('a', 5_000);
  pauses.merge('a', { kind: 'busy', leftMs: 1_000 });
  t.is(left(), 5_000);
  pauses.merge('a', { kind: 'busy', leftMs: 9_000 });
  t.is(left(), 9_000);
});
