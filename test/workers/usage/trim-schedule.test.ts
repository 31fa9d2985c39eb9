import test from 'ava';
import { createTrimSchedule } from '../../../workers/usage/outbox.ts';

function schedule() {
  let time = 0;
  const { note, due, trimmed } = createTrimSchedule({ afterMs: 10, now: () => time });
  return {
    note,
    due,
    trimmed,
    at(ms: number) {
      time = ms;
    },
  };
}

test('an entry becomes due once, after its time in the store', (t) => {
  const { note, due, trimmed, at } = schedule();
  t.is(due(1), undefined);
  note(1, '5-0');
  at(9);
  t.is(due(1), undefined);
  at(10);
  t.is(due(2), undefined);
  t.is(due(1), '5-0');
  t.is(due(1), '5-0', 'it stays due until it is trimmed: a trim may fail');
  trimmed(1);
  t.is(due(1), undefined);
  note(1, '5-0');
  at(100);
  t.is(due(1), undefined, 'noting the same id again has no effect');
});

test('each id waits its full time, and the latest becomes due in the end', (t) => {
  const { note, due, trimmed, at } = schedule();
  const notedAt = new Map<string, number>();
  const said: string[] = [];
  for (let ms = 0; ms < 100; ms += 1) {
    at(ms);
    const id = `${ms}-0`;
    note(1, id);
    notedAt.set(id, ms);
    const now = due(1);
    if (now === undefined) continue;
    t.true(ms - (notedAt.get(now) ?? ms) >= 10);
    said.push(now);
    trimmed(1);
  }
  t.true(said.length >= 4, 'trimming continues under constant load');
  at(200);
  t.is(due(1), '90-0');
  trimmed(1);
  t.is(due(1), '99-0');
  trimmed(1);
  t.is(due(1), undefined);
});
