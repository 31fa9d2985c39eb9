import test from 'ava';
import { createNoteProcess, type ProcessNote, processLifeMs } from '../../../shared/fleet/note-process.ts';
import { fleetKey } from '../../../shared/redis/keys.ts';
import { openRedisDatabase, type RedisDatabase } from '../../support/private-redis.ts';
import { replaceClock } from '../../support/redis-clock.ts';

const noon = Date.UTC(2030, 4, 15, 12);
const ingress: ProcessNote = { id: 'i', kind: 'ingress', generation: 'aaa', startedAt: 1 };
const worker: ProcessNote = { id: 'w', kind: 'worker', generation: 'bbb', pools: ['default'], startedAt: 2 };

let own: RedisDatabase;
let setTime: ReturnType<typeof replaceClock>;
test.before(async () => {
  own = await openRedisDatabase();
  setTime = replaceClock(own.redis);
});
test.after.always(() => own?.[Symbol.asyncDispose]());
test.beforeEach(async () => {
  await own.redis.del(fleetKey);
  await setTime(noon);
});

const ids = (found: readonly { id: string }[]) => found.map(({ id }) => id).toSorted();

test.serial('a process finds all that were noted, as they have described themselves last', async (t) => {
  const { note } = createNoteProcess(own.redis);
  t.deepEqual(await note(ingress), [{ ...ingress, pools: [], issues: 0 }]);
  t.deepEqual(ids(await note(worker)), ['i', 'w']);
  const next = { generation: 'bbb', waitsFor: ['large'] };
  const found = await note({ ...ingress, next, issues: 2 });
  t.deepEqual(
    found.find(({ id }) => id === 'i'),
    { ...ingress, pools: [], next, issues: 2 },
  );
});

test.serial('a process that notes nothing any more is gone after its life, and one that leaves at once', async (t) => {
  const { note, leave } = createNoteProcess(own.redis);
  await note(worker);
  await setTime(noon + processLifeMs - 1);
  t.deepEqual(ids(await note(ingress)), ['i', 'w']);
  await setTime(noon + processLifeMs);
  t.deepEqual(ids(await note(ingress)), ['i']);
  t.deepEqual(await own.redis.hkeys(fleetKey), ['i']);
  await note(worker);
  await leave('w');
  t.deepEqual(ids(await note(ingress)), ['i']);
});

test.serial('a clock that was set back makes no process live for ever', async (t) => {
  const { note } = createNoteProcess(own.redis);
  await note(worker);
  await setTime(noon - processLifeMs + 1);
  t.deepEqual(ids(await note(ingress)), ['i', 'w']);
  await setTime(noon - processLifeMs);
  t.deepEqual(ids(await note(ingress)), ['i']);
});

test.serial('a process of another release that describes itself in another way is left out', async (t) => {
  const { note } = createNoteProcess(own.redis);
  await own.redis.hset(fleetKey, 'x', `${noon} {"kind":"scheduler"}`);
  t.deepEqual(ids(await note(ingress)), ['i']);
});
