import test from 'ava';
import { outboxKey, outboxMarksKey } from '../../../shared/redis/keys.ts';
import { createMarkDrained, createTrimOutbox, createTrimSchedule } from '../../../workers/usage/outbox.ts';
import { type PrivateRedis, startPrivateRedis } from '../../support/private-redis.ts';

let own: PrivateRedis;

test.before(async () => {
  own = await startPrivateRedis();
});

test.after.always(async () => {
  await own?.[Symbol.asyncDispose]();
});

/** In the order of a stream, which is neither text order nor the order of one number. */
const ids = ['7-0', '7-9', '7-10', '7-11', '10-0', '10-99', '10-100', '1700000000000-5', '1700000000000-12'];

async function fill(partition: number): Promise<void> {
  for (const id of ids) await own.redis.xadd(outboxKey(partition), id, 'a', 'b');
}

async function left(partition: number): Promise<string[]> {
  return (await own.redis.xrange(outboxKey(partition), '-', '+')).map(([id]) => id);
}

const marksOf = (partition: number) => own.redis.hgetall(outboxMarksKey(partition));

test('the drained mark moves forward by number and not by text, and never back', async (t) => {
  const markDrained = createMarkDrained(own.redis);
  for (const [index, id] of ids.entries()) {
    for (const earlier of [...ids.slice(0, index), '0-0', id]) {
      await own.redis.hset(outboxMarksKey(0), 'drained', id);
      await markDrained(0, earlier);
      t.deepEqual(await marksOf(0), { drained: id }, `${earlier} is not after ${id}`);
      await own.redis.hset(outboxMarksKey(0), 'drained', earlier);
      await markDrained(0, id);
      t.deepEqual(await marksOf(0), { drained: id }, `${id} is not before ${earlier}`);
    }
  }
});

test('an outbox is trimmed up to the given id, and its marks record that', async (t) => {
  const trim = createTrimOutbox(own.redis);
  await fill(1);
  await createMarkDrained(own.redis)(1, ids.at(-1) ?? '');
  for (const [index, id] of ids.entries()) {
    await trim(1, id);
    t.deepEqual(await left(1), ids.slice(index + 1));
    t.deepEqual(await marksOf(1), { drained: ids.at(-1) ?? '', trimmed: id });
    await trim(1, id);
    await trim(1, ids[0] ?? '');
    t.deepEqual(await left(1), ids.slice(index + 1), 'a repeated or late call has no effect');
    t.is((await marksOf(1)).trimmed, id);
  }
});

test('an entry that is not drained is never trimmed', async (t) => {
  const trim = createTrimOutbox(own.redis);
  await fill(2);
  await trim(2, '10-0');
  t.deepEqual([await left(2), await marksOf(2)], [ids, {}]);
  for (const [index, drained] of ids.entries()) {
    await createMarkDrained(own.redis)(2, drained);
    await trim(2, '1800000000000-0');
    t.deepEqual([await left(2), await marksOf(2)], [ids.slice(index + 1), { drained, trimmed: drained }]);
  }
});

test.serial('both work when Redis is out of memory', async (t) => {
  await fill(3);
  await own.redis.config('SET', 'maxmemory', '1');
  t.teardown(() => own.redis.config('SET', 'maxmemory', '0'));
  await createMarkDrained(own.redis)(3, '10-0');
  await createTrimOutbox(own.redis)(3, '7-10');
  t.deepEqual([await left(3), await marksOf(3)], [ids.slice(3), { drained: '10-0', trimmed: '7-10' }]);
});

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
