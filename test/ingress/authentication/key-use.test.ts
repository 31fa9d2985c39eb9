import { mock } from 'node:test';
import { setImmediate as settled } from 'node:timers/promises';
import test from 'ava';
import { createKeyUse } from '../../../ingress/authentication/key-use.ts';
import { ApiError } from '../../../shared/errors.ts';
import type { KeyUse } from '../../../shared/store/records/account-store.ts';
import { recordedLog } from '../../support/recorded-log.ts';

const minuteMs = 60_000;
const everyMs = 30_000;
const start = 1_900_000_020_000; // on a minute
const account = 'user:alice';

/*
 * Timers and the clock stand still unless a test moves them. They are shared by the process, so the tests run one at a time.
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
      if (mode === 'fails') throw new ApiError('SERVICE_UNAVAILABLE', 'The store is unavailable.');
      if (mode === 'refuses' && batches.length === 1) throw new Error('this batch is invalid');
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

test.serial('a use is written within half a minute, with its minute', async (t) => {
  const { note, pass, batches } = createSubject();
  await pass(12_345);
  note('key_1');
  t.deepEqual(batches, [], 'not during the request');
  await pass(everyMs);
  t.deepEqual(batches, [[at('key_1')]]);
  await pass(10 * minuteMs);
  t.is(batches.length, 1, 'and once');
});

test.serial('one use is recorded per minute', async (t) => {
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

test.serial('a caller without a key is not recorded', async (t) => {
  const { note, pass, batches } = createSubject();
  note(undefined);
  await pass(minuteMs);
  t.deepEqual(batches, []);
});

test.serial('many uses are written in batches', async (t) => {
  const { note, pass, batches } = createSubject();
  for (let index = 0; index < 1_201; index++) note(`key_${index}`);
  await pass(everyMs);
  t.deepEqual(
    batches.map(({ length }) => length),
    [500, 500, 201],
  );
  t.is(new Set(batches.flat().map(({ keyId }) => keyId)).size, 1_201);
});

test.serial('after a failure of the store the last use of each key is written later', async (t) => {
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

test.serial('a batch that the store rejects permanently does not block the others', async (t) => {
  const { note, pass, become, batches, lines } = createSubject();
  for (let key = 0; key < 501; key++) note(`key_${key}`);
  become('refuses');
  await pass(everyMs);
  t.deepEqual(
    batches.map(({ length }) => length),
    [500, 1],
  );
  await pass(everyMs);
  t.is(batches.length, 2, 'neither is retried');
  t.deepEqual(
    lines.map(({ level }) => level),
    ['warn'],
  );
});

test.serial('a use during the write of an earlier one is not lost', async (t) => {
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

test.serial('one write at a time: a store that hangs is not called again', async (t) => {
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

test.serial('the number of waiting uses is bounded for any number of keys and any outage of the store', async (t) => {
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

test.serial('at disposal all waiting uses are written, and nothing after it', async (t) => {
  const { note, pass, close, batches } = createSubject();
  note('key_1');
  await close();
  t.deepEqual(batches, [[at('key_1')]]);
  note('key_2');
  await pass(minuteMs);
  t.is(batches.length, 1);
});

test.serial('at disposal uses recorded during a write are written, too', async (t) => {
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

test.serial('a store that hangs delays disposal by at most three seconds', async (t) => {
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

test.serial('a store that fails at disposal does not fail the process', async (t) => {
  const { note, become, close, lines } = createSubject();
  become('fails');
  note('key_1');
  await t.notThrowsAsync(close());
  t.true(lines.length > 0);
});
