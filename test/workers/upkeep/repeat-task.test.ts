import test from 'ava';
import { repeatTask } from '../../../workers/upkeep/repeat-task.ts';
import { recordedLog } from '../../support/recorded-log.ts';

test('a failure is logged and retried; work that hangs does not delay disposing', async (t) => {
  const { log, lines } = recordedLog();
  const hanging = Promise.withResolvers<AbortSignal>();
  let turns = 0;
  async function work(signal: AbortSignal): Promise<void> {
    if (++turns === 1) throw new Error('away');
    hanging.resolve(signal);
    await new Promise(() => {});
  }
  let signal: AbortSignal;
  {
    await using _task = repeatTask({ work, everyMs: 1, failed: 'not done', log });
    signal = await hanging.promise;
    t.false(signal.aborted);
  }
  t.true(signal.aborted);
  t.is(turns, 2);
  t.like(lines, { length: 1, 0: { level: 'warn', message: 'not done' } });
});
