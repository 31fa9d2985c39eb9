import test from 'ava';
import {
  retryAfterFailure,
  retryAfterLoss,
  retryAfterWaiting,
} from '../../../../workers/batches/lines/finish-line-attempt.ts';

const now = 1_000_000;
const tried = { batch: 'batch_1', line: 7, number: 3, failures: 0, losses: 0 };
const most = () => 1;
const least = () => 0;

test('the pause after a failure doubles from one second to five minutes, and jitter takes off at most half', (t) => {
  const pauses: number[] = [];
  for (let failures = 0; failures < 12; failures++) {
    const [longest, shortest] = [most, least].map(
      (random) => retryAfterFailure({ ...tried, failures }, now, random).notBefore.getTime() - now,
    );
    t.is(shortest, (longest ?? 0) / 2);
    pauses.push(longest ?? 0);
  }
  t.deepEqual(
    pauses,
    [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300].map((seconds) => seconds * 1_000),
  );
  const often = retryAfterFailure({ ...tried, failures: 100_000 }, now, most);
  t.is(often.notBefore.getTime() - now, 300_000);
});

test('a failure leads to the next request, and does not count as a loss', (t) => {
  t.like(retryAfterFailure({ ...tried, failures: 5, losses: 1 }, now), {
    ...{ batch: 'batch_1', line: 7, number: 4, failures: 6, losses: 1 },
  });
});

test('a lost line is tried again at once, until the third loss', (t) => {
  const next = { batch: 'batch_1', line: 7, number: 4, failures: 2, notBefore: new Date(now) };
  t.deepEqual(retryAfterLoss({ ...tried, failures: 2 }, now), { ...next, losses: 1 });
  t.deepEqual(retryAfterLoss({ ...tried, failures: 2, losses: 1 }, now), { ...next, losses: 2 });
  t.is(retryAfterLoss({ ...tried, losses: 2 }, now), undefined);
});

test('a line that only waited continues as the next request at once, any number of times', (t) => {
  const waited = { ...tried, failures: 3, losses: 2 };
  t.deepEqual(retryAfterWaiting(waited, now), { ...waited, number: 4, notBefore: new Date(now) });
});
