import test from 'ava';
import type { Store } from '../../../shared/store/store.ts';
import type { UsageMonth } from '../../../shared/store/usage/usage-sums.ts';
import { createCompleteUsageDetails } from '../../../workers/maintenance/complete-usage-details.ts';
import { recordedLog } from '../../support/recorded-log.ts';

const monthOf = (account: string): UsageMonth => ({ account, month: '2026-12' });
const pages = [
  { incomplete: [monthOf('a'), monthOf('b')], last: monthOf('b') },
  { incomplete: [], last: monthOf('d') },
  { incomplete: [monthOf('e')] },
];

/** A store with three pages of sums. `complete` is called for each incomplete month. */
function storeThat(complete: Store['completeUsageDetails']) {
  const asked: (UsageMonth | undefined)[] = [];
  return {
    asked,
    async listIncompleteUsage({ after }: Parameters<Store['listIncompleteUsage']>[0]) {
      asked.push(after);
      return pages[asked.length - 1] ?? { incomplete: [] };
    },
    completeUsageDetails: complete,
  };
}

test('the incomplete months of all pages are completed, with a pause after each page', async (t) => {
  const { log, lines } = recordedLog();
  const completed: string[] = [];
  const store = storeThat(async ({ account }, { pause } = {}) => {
    await pause?.();
    completed.push(account);
    return account !== 'b'; // it changes too fast, and is left for the next pass
  });
  let pauses = 0;
  const pause = async () => {
    pauses += 1;
  };
  t.false(await createCompleteUsageDetails({ store, log, pause })(new AbortController().signal, { ofAll: true }));
  t.deepEqual(completed, ['a', 'b', 'e']);
  t.deepEqual(store.asked, [undefined, monthOf('b'), monthOf('d')]);
  t.is(pauses, 3 + 2, 'one in each month, and one between two pages');
  t.like(lines, [{ fields: { months: 2 } }]);
});

test('a month that fails does not block the others, and fails the pass', async (t) => {
  const { log } = recordedLog();
  const completed: string[] = [];
  const store = storeThat(async ({ account }) => {
    if (account === 'a') throw new Error('unreadable');
    completed.push(account);
    return true;
  });
  const complete = createCompleteUsageDetails({ store, log, pause: async () => {} });
  await t.throwsAsync(complete(new AbortController().signal, { ofAll: true }), { message: 'unreadable' });
  t.deepEqual(completed, ['b', 'e']);
});

test('it ends at once when the worker stops', async (t) => {
  const { log } = recordedLog();
  const stopping = new AbortController();
  const store = storeThat(async (_month, { pause } = {}) => {
    stopping.abort();
    await pause?.();
    return true;
  });
  await t.throwsAsync(createCompleteUsageDetails({ store, log })(stopping.signal, { ofAll: true }), {
    name: 'AbortError',
  });
  t.is(store.asked.length, 1);
});

test('a pass that is not of all months ends after the newest two', async (t) => {
  const { log } = recordedLog();
  const asked: (UsageMonth | undefined)[] = [];
  const store = {
    async listIncompleteUsage({ after }: Parameters<Store['listIncompleteUsage']>[0]) {
      asked.push(after);
      return { incomplete: [], last: { account: 'a', month: `2026-${12 - asked.length}` } };
    },
    completeUsageDetails: async () => t.fail() as never,
  };
  const complete = createCompleteUsageDetails({ store, log, pause: async () => {} });
  t.true(await complete(new AbortController().signal, { ofAll: false }));
  t.deepEqual(
    asked.map((after) => after?.month),
    [undefined, '2026-11', '2026-10'],
  );
});
