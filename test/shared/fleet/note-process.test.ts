import test from 'ava';
import {
  createNoteProcess,
  type ProcessLoad,
  type ProcessNote,
  processLifeMs,
} from '../../../shared/fleet/note-process.ts';
import { fleetKey, fleetLoadKey } from '../../../shared/redis/keys.ts';
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
  await own.redis.del(fleetKey, fleetLoadKey);
  await setTime(noon);
});

const idle: ProcessLoad = { kind: 'ingress', connections: 0, waiting: 0, oldest: [] };
const busy: ProcessLoad = {
  ...{ kind: 'worker', running: 3, waiting: 1, backends: [{ backend: 'a', calls: 3, share: 4 }] },
  health: [
    {
      backend: 'a',
      model: 'm',
      breaker: 'half-open',
      firstTokenMs: 12.5,
      answered: 7,
      failed: 1,
      promptTokens: 0,
      cachedTokens: 0,
      suspects: 0,
    },
  ],
  pauses: [{ backend: 'a', kind: 'loading', leftMs: 900 }],
};

const ids = (found: readonly { id: string }[]) => found.map(({ id }) => id).toSorted();

test.serial('a process finds all that were noted, as they have described themselves last', async (t) => {
  const { note } = createNoteProcess(own.redis);
  t.deepEqual(await note(ingress, idle), [{ ...ingress, pools: [], issues: 0 }]);
  t.deepEqual(ids(await note(worker, busy)), ['i', 'w']);
  const next = { generation: 'bbb', waitsFor: ['large'] };
  const found = await note({ ...ingress, next, issues: 2 }, idle);
  t.deepEqual(
    found.find(({ id }) => id === 'i'),
    { ...ingress, pools: [], next, issues: 2 },
  );
});

test.serial('a process that notes nothing any more is gone after its life, and one that leaves at once', async (t) => {
  const { note, leave } = createNoteProcess(own.redis);
  await note(worker, busy);
  await setTime(noon + processLifeMs - 1);
  t.deepEqual(ids(await note(ingress, idle)), ['i', 'w']);
  await setTime(noon + processLifeMs);
  t.deepEqual(ids(await note(ingress, idle)), ['i']);
  t.deepEqual(await own.redis.hkeys(fleetKey), ['i']);
  await note(worker, busy);
  await leave('w');
  t.deepEqual(ids(await note(ingress, idle)), ['i']);
});

test.serial('a clock that was set back makes no process live for ever', async (t) => {
  const { note } = createNoteProcess(own.redis);
  await note(worker, busy);
  await setTime(noon - processLifeMs + 1);
  t.deepEqual(ids(await note(ingress, idle)), ['i', 'w']);
  await setTime(noon - processLifeMs);
  t.deepEqual(ids(await note(ingress, idle)), ['i']);
});

test.serial('a process of another release that describes itself in another way is left out', async (t) => {
  const { note } = createNoteProcess(own.redis);
  await own.redis.hset(fleetKey, 'x', `${noon} {"kind":"scheduler"}`);
  t.deepEqual(ids(await note(ingress, idle)), ['i']);
});

test.serial('what each process does is known as long as the process is', async (t) => {
  const { note, leave, loads } = createNoteProcess(own.redis);
  await note(ingress, idle);
  await note(worker, busy);
  t.deepEqual(Object.fromEntries(await loads()), { i: idle, w: busy });
  await leave('i');
  t.deepEqual([...(await loads()).keys()], ['w']);
  await setTime(noon + processLifeMs);
  await note(ingress, idle);
  t.deepEqual([...(await loads()).keys()], ['i']);
});

test.serial('a process of another release that says nothing of its load, or in another way, is left out', async (t) => {
  const { note, loads } = createNoteProcess(own.redis);
  await own.redis.hset(fleetKey, 'x', `${noon} ${JSON.stringify({ ...worker, id: 'x' })}`);
  t.deepEqual(ids(await note(ingress, idle)), ['i', 'x']);
  await own.redis.hset(fleetLoadKey, 'x', '{"kind":"worker"}');
  t.deepEqual([...(await loads()).keys()], ['i']);
});

test.serial('what is not JSON is left out', async (t) => {
  const { note, loads } = createNoteProcess(own.redis);
  await own.redis.hset(fleetKey, 'x', `${noon} {`);
  t.deepEqual(ids(await note(ingress, idle)), ['i']);
  await own.redis.hset(fleetLoadKey, 'x', '{');
  t.deepEqual([...(await loads()).keys()], ['i']);
});
