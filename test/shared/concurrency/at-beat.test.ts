import test from 'ava';
import { atBeat, pauseToBeat } from '../../../shared/concurrency/at-beat.ts';

const beatMs = 250;

test('works that are due within half a beat of each other run in one turn, without those that were cancelled', async (t) => {
  const ran: string[] = [];
  const beatAt = (Math.floor(performance.now() / beatMs) + 4) * beatMs;
  const dueAt = (at: number) => at - performance.now();
  atBeat(dueAt(beatAt + 60), () => {
    ran.push('a');
    queueMicrotask(() => ran.push('the turn is over'));
  });
  atBeat(dueAt(beatAt - 60), () => ran.push('b'));
  atBeat(dueAt(beatAt), () => ran.push('never'))();
  await new Promise<void>((resolve) => atBeat(dueAt(beatAt + beatMs), resolve));
  t.deepEqual(ran, ['a', 'b', 'the turn is over']);
});

test('a time of less than two beats is kept', async (t) => {
  const ran: string[] = [];
  const signal = AbortSignal.timeout(10_000);
  const pauses = [600, 20].map((ms) => pauseToBeat(ms, signal).then(() => ran.push(`after ${ms}`)));
  await Promise.all(pauses);
  t.deepEqual(ran, ['after 20', 'after 600']);
});

test('a pause ends when its signal is aborted, before and in it', async (t) => {
  const stop = new AbortController();
  const pause = pauseToBeat(3_600_000, stop.signal);
  stop.abort();
  await pause;
  await pauseToBeat(3_600_000, stop.signal);
  t.pass();
});
