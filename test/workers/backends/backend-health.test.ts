import { setImmediate as nextTurn } from 'node:timers/promises';
import type { ExecutionContext } from 'ava';
import test from 'ava';
import { createBackendHealth, createRecentOutcomes } from '../../../workers/backends/backend-health.ts';
import type { BreakerState } from '../../../workers/backends/breaker.ts';

function open(t: ExecutionContext, isWell = async () => true) {
  let time = 0;
  const states: BreakerState[] = [];
  const changed = new EventTarget();
  const served = createBackendHealth({
    onBreaker(state) {
      states.push(state);
      changed.dispatchEvent(new Event(state));
    },
    test: isWell,
    probeMs: () => 600_000,
    random: () => 0,
    now: () => time,
  });
  const awake = setInterval(() => {}, 1_000); // the breaker's own timers keep no process alive
  t.teardown(() => {
    clearInterval(awake);
    served[Symbol.dispose]();
  });
  return {
    served,
    pass: (ms: number) => {
      time += ms;
    },
    becomes: (state: BreakerState) =>
      new Promise((resolve) => changed.addEventListener(state, resolve, { once: true })),
  };
}

test('the time to the first token is a mean that weighs the latest most, and is known for a minute', (t) => {
  const { served, pass } = open(t);
  t.is(served.firstTokenMs(), undefined);
  for (const ms of [100, 200]) {
    const call = served.begin('user:a');
    pass(ms);
    call.firstToken();
    call.end({ outcome: 'answered' });
  }
  t.is(served.firstTokenMs(), 130);
  pass(59_999);
  t.is(served.firstTokenMs(), 130);
  pass(1);
  t.is(served.firstTokenMs(), undefined);
});

test('a backend that has failed ranks as slower than any other until it has answered, also in one piece', (t) => {
  const { served } = open(t);
  served.begin('user:a').end({ outcome: 'failed', evidence: 'backend' });
  t.is(served.firstTokenMs(), Number.MAX_SAFE_INTEGER);
  served.begin('user:a').end({ outcome: 'answered' });
  t.is(served.firstTokenMs(), undefined);
});

test('the time of a backend that may be probed is unknown, so that it is found out', async (t) => {
  const { served, becomes } = open(t);
  for (let failures = 0; failures < 5; failures++)
    served.begin('user:a').end({ outcome: 'failed', evidence: 'backend' });
  t.is(served.firstTokenMs(), Number.MAX_SAFE_INTEGER);
  await becomes('half-open');
  t.false(served.refuses());
  t.is(served.firstTokenMs(), undefined);
  const probe = served.begin('user:a');
  t.true(served.isProbed());
  probe.firstToken();
  t.false(served.isProbed());
});

test('an account whose requests were lost with the backend probes it as soon as it is back', async (t) => {
  let isWell = false;
  const { served } = open(t, async () => isWell);
  const lost = [1, 2, 3].map(() => served.begin('user:a'));
  for (const call of lost) call.end({ outcome: 'failed', evidence: 'request' });
  await nextTurn();
  for (let failures = 0; failures < 2; failures++)
    served.begin('user:a').end({ outcome: 'failed', evidence: 'backend' });
  t.is(served.breaker(), 'open');
  t.true(served.refuses('user:a'));
  isWell = true;
  served.lookAgain();
  await nextTurn();
  t.is(served.breaker(), 'half-open');
  t.false(served.refuses('user:a'));
  served.begin('user:a').end({ outcome: 'answered' });
  t.is(served.breaker(), 'closed');
});

test('a backend that is away by its tests alone is tested again, also after a call from before breaks off', async (t) => {
  let isWell = false;
  const { served, pass } = open(t, async () => isWell);
  const [late, ...lost] = [1, 2, 3, 4, 5, 6].map(() => served.begin('user:a'));
  pass(1);
  for (const call of lost) call.end({ outcome: 'failed', evidence: 'request' });
  await nextTurn();
  t.is(served.breaker(), 'open');
  isWell = true;
  pass(1);
  late?.end({ outcome: 'failed', evidence: 'request' });
  served.lookAgain();
  await nextTurn();
  t.is(served.breaker(), 'half-open');
});

test('a probe that was answered and breaks off with its backend keeps its account from no other probe', async (t) => {
  let isWell = true;
  const { served, pass } = open(t, async () => isWell);
  async function goesAndComesBack() {
    for (let failures = 0; failures < 5; failures++)
      served.begin('user:b').end({ outcome: 'failed', evidence: 'backend' });
    isWell = true;
    pass(1_000);
    served.lookAgain();
    await nextTurn();
    t.is(served.breaker(), 'half-open');
  }
  await goesAndComesBack();
  const probe = served.begin('user:a');
  probe.firstToken();
  t.is(served.breaker(), 'closed');
  isWell = false;
  probe.end({ outcome: 'failed', evidence: 'request' });
  await nextTurn();
  await goesAndComesBack();
  t.false(served.refuses('user:a'));
});

test('an account whose request failed while the backend was well leaves the next probe to others', async (t) => {
  const { served, becomes } = open(t);
  served.begin('user:a').end({ outcome: 'failed', evidence: 'request' });
  await nextTurn();
  for (let failures = 0; failures < 5; failures++)
    served.begin('user:b').end({ outcome: 'failed', evidence: 'backend' });
  await becomes('half-open');
  t.true(served.refuses('user:a'));
  t.false(served.refuses('user:b'));
});

test('a probe that fails through its own request leaves the next one to another request, and one of its account comes later', async (t) => {
  const { served, becomes, pass } = open(t);
  for (let failures = 0; failures < 5; failures++)
    served.begin('user:a').end({ outcome: 'failed', evidence: 'backend' });
  await becomes('half-open');
  for (let times = 0; times < 3; times++) {
    t.false(served.refuses('user:poisoned'));
    served.begin('user:poisoned').end({ outcome: 'failed', evidence: 'request' });
    t.true(served.refuses('user:poisoned'), 'it probes again after five seconds');
    t.false(served.refuses('user:well'));
    t.false(served.isProbed());
    pass(5_000);
  }
  served.begin('user:well').firstToken();
  t.is(served.breaker(), 'closed');
});

test('outcomes and tokens of prompts of about the last minute are counted, and older ones are forgotten', (t) => {
  let now = 5_000;
  const outcomes = createRecentOutcomes(() => now);
  const sum = (answered: number, failed: number, promptTokens: number, cachedTokens: number) => ({
    ...{ answered, failed, promptTokens, cachedTokens },
  });
  t.deepEqual(outcomes.sum(), sum(0, 0, 0, 0));
  outcomes.note({ answered: 1, promptTokens: 100, cachedTokens: 80 });
  now = 30_000;
  outcomes.note({ answered: 1, promptTokens: 10, cachedTokens: 0 });
  outcomes.note({ failed: 1 });
  t.deepEqual(outcomes.sum(), sum(2, 1, 110, 80));
  now = 59_999;
  t.deepEqual(outcomes.sum(), sum(2, 1, 110, 80));
  now = 60_000;
  t.deepEqual(outcomes.sum(), sum(1, 1, 10, 0));
  now = 89_999;
  t.deepEqual(outcomes.sum(), sum(1, 1, 10, 0));
  now = 90_000;
  t.deepEqual(outcomes.sum(), sum(0, 0, 0, 0));
});
