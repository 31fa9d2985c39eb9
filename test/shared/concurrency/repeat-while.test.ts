import { mock } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import test from 'ava';
import { repeatWhile } from '../../../shared/concurrency/repeat-while.ts';

test.before(() => mock.timers.enable({ apis: ['setTimeout'] }));
test.after.always(() => mock.timers.reset());

test.serial('work is repeated from begin on while it is needed, and an idle process has no timer', async (t) => {
  let [done, isNeeded, asked] = [0, true, 0];
  using repeated = repeatWhile({
    everyMs: 100,
    work: async () => void done++,
    onFailure: () => t.fail(),
    isNeeded() {
      asked++;
      return isNeeded;
    },
  });
  mock.timers.tick(1_000);
  t.is(asked, 0);
  repeated.begin();
  repeated.begin();
  mock.timers.tick(100);
  await turn();
  mock.timers.tick(150);
  await turn();
  t.is(done, 2);
  isNeeded = false;
  mock.timers.tick(1_000);
  t.deepEqual([done, asked], [2, 3]);
  isNeeded = true;
  mock.timers.tick(1_000);
  t.is(done, 2);
  repeated.begin();
  mock.timers.tick(100);
  t.is(done, 3);
  repeated[Symbol.dispose]();
  mock.timers.tick(1_000);
  t.is(done, 3);
});

test.serial('unfinished work is not started again, and failed work is', async (t) => {
  const failures: unknown[] = [];
  let [begun, pending] = [0, Promise.withResolvers<void>()];
  using repeated = repeatWhile({
    everyMs: 100,
    work() {
      begun++;
      return pending.promise;
    },
    isNeeded: () => true,
    onFailure: (error) => failures.push(error),
  });
  repeated.begin();
  mock.timers.tick(1_000);
  t.is(begun, 1);
  pending.reject('unavailable');
  await turn();
  t.deepEqual(failures, ['unavailable']);
  pending = Promise.withResolvers();
  mock.timers.tick(100);
  t.is(begun, 2);
});
