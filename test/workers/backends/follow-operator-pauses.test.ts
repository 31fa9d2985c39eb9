import test from 'ava';
import type { BackendPause } from '../../../shared/fleet/backend-pauses.ts';
import { followOperatorPauses } from '../../../workers/backends/pauses.ts';
import { recordedLog } from '../../support/recorded-log.ts';

const pause = { since: 0, until: 60_000, by: 'user:olga', reason: null };

function open(read: () => Promise<ReadonlyMap<string, BackendPause | null>>, time = 10_000) {
  const left: [string, number][] = [];
  const names = ['a', 'b'];
  const followed = followOperatorPauses({
    ...{ backendPauses: { read }, called: () => names, log: recordedLog().log, wallClock: () => time },
    set: (backend, leftMs) => left.push([backend, leftMs]),
  });
  return { followed, left, names };
}

test('a pause lasts as long as is left of it, and a backend without one is called', async (t) => {
  const { followed, left } = open(async () => new Map([['a', pause] as const, ['b', null] as const]));
  using _followed = followed;
  await followed.look();
  t.deepEqual(left, [
    ['a', 50_000],
    ['b', 0],
  ]);
});

test('of a backend that has left the plan file no pause is kept', async (t) => {
  const { followed, left, names } = open(async () => new Map([['a', pause] as const]));
  using _followed = followed;
  await followed.look();
  names.splice(0);
  await followed.look();
  t.deepEqual(left.slice(1, 3), [
    ['a', 0],
    ['b', 0],
  ]);
});

test('while Redis has the pause it lasts until the next look, also if the clock of this machine is ahead', async (t) => {
  const { followed, left } = open(async () => new Map([['a', pause] as const]), 90_000);
  using _followed = followed;
  await followed.look();
  t.deepEqual(left, [['a', 2_000]]);
});

test('without an answer of Redis, and for a backend whose node is away, what is known stays', async (t) => {
  const failing = open(() => Promise.reject(new Error('no connection')));
  using _failing = failing.followed;
  await t.notThrowsAsync(failing.followed.look());
  const away = open(async () => new Map([['b', null] as const]));
  using _away = away.followed;
  await away.followed.look();
  t.deepEqual([...failing.left, ...away.left], [['b', 0]]);
});
