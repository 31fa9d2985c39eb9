import { mock } from 'node:test';
import { setImmediate as settled } from 'node:timers/promises';
import test from 'ava';
import { createKeyUse } from '../../../ingress/callers/key-use.ts';
import { ApiError } from '../../../shared/errors.ts';
import type { KeyUse } from '../../../shared/store/store.ts';
import { recordedLog } from '../../support/recorded-log.ts';

const minuteMs = 60_000;
const everyMs = 30_000;
const start = 1_900_000_020_000; // on a minute
const account = 'user:alice';

/*
 * Timers stand still unless a test moves them, and so does the clock that notes go by. They are those of the whole process,
 * so one test at a time.
 */
test.beforeEach(() => mock.timers.enable({ apis: ['setTimeout', 'setInterval'] }));
test.afterEach.always(() => mock.timers.reset());

type Mode = 'writes' | 'fails' | 'refuses' | 'hangs';

function createSubject() {
  const batches: KeyUse[][] = [];
  let mode: Mode = 'writes';
  let now = start;
  const hanging = Promise.withResolvers<void>();
  const store = {
    async recordKeyUse(uses: readonly KeyUse[]): Promise<void> {
      batches.push([...uses]);
      if (mode === 'fails') throw new ApiError('SERVICE_UNAVAILABLE', 'The store is away.');
      if (mode === 'refuses' && batches.length === 1) throw new Error('this batch is no good');
      if (mode === 'hangs') await hanging.promise;
    },
  };
  const { log, lines } = recordedLog();
  const keyUse = createKeyUse({ store, log, now: () => now, everyMs });
  return {
    keyUse,
    batches,
    lines,
    note: (keyId: string | undefined) => keyUse.note({ account, keyId }),
    become(next: Mode): void {
      mode = next;
      if (next !== 'hangs') hanging.resolve();
    },
    async pass(ms: number): Promise<void> {
      now += ms;
      mock.timers.tick(ms);
      await settled();
    },
    close: () => keyUse[Symbol.asyncDispose](),
  };
}

const at = (keyId: string, minute = start) => ({ account, keyId, at: new Date(minute) });

test.serial('a use is written within half a minute, with the minute it was in', async (t) => {
  const { note, pass, batches } = createSubject();
  await pass(12_345);
  note('key_1');
  t.deepEqual(batches, [], 'not while a request waits');
  await pass(everyMs);
  t.deepEqual(batches, [[at('key_1')]]);
  await pass(10 * minuteMs);
  t.is(batches.length, 1, 'and once');
});

test.serial('of many uses within a minute one is noted, and the next minute has its own', async (t) => {
  const { note, pass, batches } = createSubject();
  for (let second = 0; second < 60; second++) {
    note('key_1');
    note('key_2');
    if (second < 59) await pass(1_000);
  }
  t.deepEqual(batches, [[at('key_1'), at('key_2')]]);
  await pass(1_000);
  note('key_1');
  await pass(everyMs);
  t.deepEqual(batches.slice(1), [[at('key_1', start + minuteMs)]]);
});

test.serial('a caller without a key is not noted', async (t) => {
  const { note, pass, batches } = createSubject();
  note(undefined);
  await pass(minuteMs);
  t.deepEqual(batches, []);
});

test.serial('many are written in batches', async (t) => {
  const { note, pass, batches } = createSubject();
  for (let index = 0; index < 1_201; index++) note(`key_${index}`);
  await pass(everyMs);
  t.deepEqual(
    batches.map(({ length }) => length),
    [500, 500, 201],
  );
  t.is(new Set(batches.flat().map(({ keyId }) => keyId)).size, 1_201);
});

test.serial('a store that fails gets all of it when it is back, each key by its last use', async (t) => {
  const { note, pass, become, batches, lines } = createSubject();
  become('fails');
  note('key_1');
  note('key_2');
  await pass(minuteMs);
  note('key_1');
  await pass(minuteMs);
  become('writes');
  batches.length = 0;
  await pass(everyMs);
  t.deepEqual(batches, [[at('key_1', start + minuteMs), at('key_2')]]);
  await pass(minuteMs);
  t.is(batches.length, 1);
  t.true(lines.length > 0 && lines.every(({ level }) => level === 'debug'));
});

test.serial('a batch that the store will never take keeps none of the others from being written', async (t) => {
  const { note, pass, become, batches, lines } = createSubject();
  for (let key = 0; key < 501; key++) note(`key_${key}`);
  become('refuses');
  await pass(everyMs);
  t.deepEqual(
    batches.map(({ length }) => length),
    [500, 1],
  );
  await pass(everyMs);
  t.is(batches.length, 2, 'neither is tried again');
  t.deepEqual(
    lines.map(({ level }) => level),
    ['warn'],
  );
});

test.serial('a use that is noted while the one before it is being written is not taken for that', async (t) => {
  const { note, pass, become, batches } = createSubject();
  become('hangs');
  note('key_1');
  await pass(minuteMs);
  note('key_1');
  become('writes');
  await settled();
  await pass(everyMs);
  t.deepEqual(batches, [[at('key_1')], [at('key_1', start + minuteMs)]]);
});

test.serial('one writing at a time: a store that hangs is not asked again', async (t) => {
  const { note, pass, become, batches } = createSubject();
  become('hangs');
  note('key_1');
  await pass(everyMs);
  for (let minute = 0; minute < 5; minute++) {
    note('key_2');
    await pass(minuteMs);
  }
  t.is(batches.length, 1);
});

test.serial('however many keys there are and however long the store is away, what waits is bounded', async (t) => {
  const { note, pass, become, batches } = createSubject();
  become('fails');
  for (let index = 0; index < 100_100; index++) note(`key_${index}`);
  await pass(minuteMs);
  for (let index = 0; index < 100_100; index++) note(`another_${index}`);
  become('writes');
  batches.length = 0;
  await pass(minuteMs);
  t.is(batches.flat().length, 100_000);
  note('later');
  await pass(minuteMs);
  t.deepEqual(
    batches
      .flat()
      .slice(100_000)
      .map(({ keyId }) => keyId),
    ['later'],
  );
});

test.serial('at its end everything that waits is written, and nothing after it', async (t) => {
  const { note, pass, close, batches } = createSubject();
  note('key_1');
  await close();
  t.deepEqual(batches, [[at('key_1')]]);
  note('key_2');
  await pass(minuteMs);
  t.is(batches.length, 1);
});

test.serial('at its end also what was noted while a writing was under way is written', async (t) => {
  const { note, pass, become, close, batches } = createSubject();
  become('hangs');
  note('key_1');
  await pass(everyMs);
  note('key_2');
  const closed = close();
  become('writes');
  await closed;
  t.deepEqual(batches, [[at('key_1')], [at('key_2')]]);
});

test.serial('a store that hangs holds up the end for three seconds and no longer', async (t) => {
  const { note, become, close } = createSubject();
  become('hangs');
  note('key_1');
  let closed = false;
  const closing = close().then(() => {
    closed = true;
  });
  await settled();
  mock.timers.tick(2_999);
  await settled();
  t.false(closed);
  mock.timers.tick(1);
  await closing;
});

test.serial('a store that fails at the end is no failure of the process', async (t) => {
  const { note, become, close, lines } = createSubject();
  become('fails');
  note('key_1');
  await t.notThrowsAsync(close());
  t.true(lines.length > 0);
});
