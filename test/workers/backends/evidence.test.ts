import test from 'ava';
import { createEvidenceLog, type Evidence } from '../../../workers/backends/evidence.ts';

function open() {
  let time = 0;
  const log = createEvidenceLog(() => time);
  return {
    log,
    pass: (ms: number) => {
      time += ms;
    },
    /** How many of these failures count. */
    counted: (evidence: Evidence, holder: string, times: number) =>
      Array.from({ length: times }, () => log.weigh(evidence, holder)).filter(Boolean).length,
  };
}

test('what cannot be the fault of a request counts, and makes nothing suspect', (t) => {
  const { log, counted } = open();
  t.is(counted('backend', 'user:a', 3), 3);
  t.is(counted('operator', 'user:a', 3), 3);
  t.false(log.isSuspect('user:a'));
});

test('failures of one account alone never count, however many they are', (t) => {
  for (const evidence of ['request', 'silence', 'operator, if two'] as const) {
    const { log, counted } = open();
    t.is(counted(evidence, 'user:a', 1_000), 0);
    t.true(log.isSuspect('user:a'));
    t.false(log.isSuspect('user:b'));
  }
});

test('of failures of two accounts as many count as each has against the other: one failure of another account is no proof', (t) => {
  const { counted } = open();
  t.is(counted('request', 'user:a', 100), 0);
  t.is(counted('request', 'user:b', 1), 1);
  t.is(counted('request', 'user:a', 100), 1);
  t.is(counted('request', 'user:b', 3), 3);
});

test('failures of two accounts in turn all count from the second on', (t) => {
  const { log } = open();
  const weighed = Array.from({ length: 6 }, (_, index) => log.weigh('request', index % 2 === 0 ? 'user:a' : 'user:b'));
  t.deepEqual(weighed, [false, true, true, true, true, true]);
});

test('silence and a refused account count after a failed health test, and an error does not', (t) => {
  const { log, counted, pass } = open();
  log.noteFailedTest();
  t.is(counted('silence', 'user:a', 2), 2);
  t.is(counted('operator, if two', 'user:a', 2), 2);
  t.is(counted('request', 'user:a', 2), 0);
  pass(20_000);
  t.is(counted('silence', 'user:a', 2), 0);
});

test('failures count for 20 s, and suspicion ends after 30 s or with an answer', (t) => {
  const { log, counted, pass } = open();
  log.weigh('request', 'user:a');
  pass(20_000);
  t.is(counted('request', 'user:b', 1), 0);
  t.true(log.isSuspect('user:a'));
  t.is(log.suspects(), 2);
  pass(10_000);
  t.is(log.suspects(), 1, 'also if the account never asks again');
  t.false(log.isSuspect('user:a'));
  t.true(log.isSuspect('user:b'));
  t.is(log.suspects(), 1);
  log.clear('user:b');
  t.false(log.isSuspect('user:b'));
});

test('it keeps a bounded number of accounts', (t) => {
  const { log } = open();
  for (let account = 0; account < 5_000; account++) log.weigh('request', `user:${account % 2 === 0 ? account : 'x'}`);
  t.true(log.suspects() <= 1_000);
});
