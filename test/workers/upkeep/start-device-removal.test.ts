import { setTimeout as sleep } from 'node:timers/promises';
import test from 'ava';
import type { Redis } from '../../../shared/redis/connections.ts';
import { startDeviceRemoval } from '../../../workers/upkeep/remove-unused-devices.ts';
import { recordedLog } from '../../support/recorded-log.ts';

const dayMs = 86_400_000;

type Wishes = { isHeld?: () => boolean; fails?: () => boolean; ends?: () => boolean };

/** A worker that checks every few milliseconds. The clock stands still until the test moves it. */
function start({ isHeld = () => true, fails = () => false, ends = () => true }: Wishes = {}) {
  const { log, lines } = recordedLog();
  let [now, looks, passes] = [0, 0, 0];
  let lookedAtUntil = 0;
  const keeping = startDeviceRemoval({
    redis: {
      exists: async () => Number(now < lookedAtUntil),
      set: (async (_key: string, _value: string, _unit: 'PX', lifeMs: number) => {
        lookedAtUntil = now + lifeMs;
        return 'OK';
      }) as Redis['set'], // the only form in which it is called
    },
    removeUnusedDevices: async () => {
      passes++;
      if (fails()) throw new Error('not now');
      return ends();
    },
    acquireLock: async () => {
      looks++;
      return isHeld();
    },
    log,
    everyMs: 2,
  });
  return {
    keeping,
    lines,
    passes: () => passes,
    pass(ms: number) {
      now += ms;
    },
    /** Waits until it has checked three more times. */
    async looksAgain(): Promise<void> {
      for (const before = looks; looks < before + 3; ) await sleep(2);
    },
  };
}

test('there is a pass at once, then once a day', async (t) => {
  const side = start();
  await using _keeping = side.keeping;
  await side.looksAgain();
  t.is(side.passes(), 1);
  side.pass(dayMs - 1);
  await side.looksAgain();
  t.is(side.passes(), 1);
  side.pass(1);
  await side.looksAgain();
  t.is(side.passes(), 2);
});

test('a worker without the lock makes no pass, until it gets the lock', async (t) => {
  let held = false;
  const side = start({ isHeld: () => held });
  await using _keeping = side.keeping;
  await side.looksAgain();
  t.is(side.passes(), 0);
  held = true;
  await side.looksAgain();
  t.is(side.passes(), 1);
});

test('a failed pass is retried, and after a success the next one is a day later', async (t) => {
  let failing = true;
  const side = start({ fails: () => failing });
  await using _keeping = side.keeping;
  await side.looksAgain();
  t.true(side.passes() >= 2);
  t.true(side.lines.every(({ level }) => level === 'warn'));
  failing = false;
  await side.looksAgain();
  const passes = side.passes();
  await side.looksAgain();
  t.is(side.passes(), passes);
});

test('a stopped pass continues at the next check', async (t) => {
  let ending = false;
  const side = start({ ends: () => ending });
  await using _keeping = side.keeping;
  await side.looksAgain();
  t.true(side.passes() >= 2);
  ending = true;
  await side.looksAgain();
  const passes = side.passes();
  await side.looksAgain();
  t.is(side.passes(), passes);
});

test('it checks no more after it was disposed of', async (t) => {
  const side = start();
  await side.looksAgain();
  await side.keeping[Symbol.asyncDispose]();
  const passes = side.passes();
  side.pass(dayMs);
  await sleep(20);
  t.is(side.passes(), passes);
});
