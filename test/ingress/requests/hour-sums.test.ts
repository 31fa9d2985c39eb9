import test from 'ava';
import { createHourSums } from '../../../ingress/requests/hour-sums.ts';
import { noDetailCounts } from '../../../shared/store/usage/usage-record.ts';
import type { HourGroup } from '../../../shared/store/usage/usage-tables.ts';

const evening = Date.parse('2026-12-05T20:30:00Z');
const sum = { account: '', model: 'small-chat', code: 'completed', counts: { ...noDetailCounts, requests: 5 } };
const refusals = [{ account: '', code: 'rate_limit_exceeded', requests: 3 }];

function hourSums() {
  const asked: string[] = [];
  const clock = { now: evening };
  const sums = createHourSums({
    now: () => clock.now,
    store: {
      async sumHour(hour, groups) {
        asked.push(`${hour} ${groups}`);
        return { usage: [sum], refusals };
      },
    },
  });
  const read = (start: string, groups: readonly HourGroup[] = ['model', 'code']) =>
    Array.fromAsync(sums.read({ start, end: '2026-12-05T23' }, groups));
  return { read, asked, clock };
}

test('the hours of a range come in their order, up to the present one', async (t) => {
  const { read } = hourSums();
  t.deepEqual(
    await read('2026-12-05T18'),
    ['18', '19', '20'].map((hour) => ({ hour: `2026-12-05T${hour}`, usage: [sum], refusals })),
  );
});

test('an hour that has long ended is read every ten minutes, and others every five seconds', async (t) => {
  const { read, asked, clock } = hourSums();
  const hours = async (start: string) => {
    asked.length = 0;
    await read(start);
    return asked.map((text) => text.slice(11, 13));
  };
  t.deepEqual(await hours('2026-12-05T16'), ['16', '17', '18', '19', '20']);
  clock.now += 4_000;
  t.deepEqual(await hours('2026-12-05T16'), []);
  clock.now += 2_000;
  t.deepEqual(await hours('2026-12-05T16'), ['18', '19', '20']);
  clock.now += 600_000;
  t.deepEqual(await hours('2026-12-05T16'), ['16', '17', '18', '19', '20']);
  await read('2026-12-05T20', ['account']);
  t.is(asked.at(-1), '2026-12-05T20 account');
});
