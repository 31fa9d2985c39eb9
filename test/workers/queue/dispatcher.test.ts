import { setImmediate as nextTurn } from 'node:timers/promises';
import type { ExecutionContext } from 'ava';
import test from 'ava';
import type { Lane } from '../../../shared/redis/keys.ts';
import type { ReserveOutcome } from '../../../workers/backends/backend-slots.ts';
import { createDispatcher } from '../../../workers/queue/dispatcher.ts';
import type { LaneWorker, LockedJob } from '../../../workers/queue/lane-worker.ts';
import { createLinePace } from '../../../workers/queue/line-pace.ts';
import type { DispatchedQueue } from '../../../workers/queue/queue-state.ts';
import { recordedLog } from '../../support/recorded-log.ts';

type Queue = {
  /** Jobs that wait, and those in progress. */
  waiting: number;
  running: Set<() => void>;
  takings: number;
  markersSet: number;
  nextAt: number;
  fail: boolean;
  isMarked: boolean;
};

type Wishes = {
  slots?: number;
  concurrency?: number;
  batchConcurrency?: number;
  queues: Record<string, { lane?: Lane; waiting?: number }>;
};

/** Queues in memory, and backends with a total number of slots, which `free` changes. */
function openSubject(
  t: ExecutionContext,
  { slots = 100, concurrency = 100, batchConcurrency = 100, ...wishes }: Wishes,
) {
  const queues = new Map<string, Queue>();
  const order: string[] = [];
  const gone: string[] = [];
  const putBack: [marker: string, at: number][] = [];
  let free = slots;
  let wanted = 0;
  const { log, lines } = recordedLog();

  function open([name, { lane = 'interactive', waiting = 0 }]: [string, Wishes['queues'][string]]): DispatchedQueue {
    const queue: Queue = {
      waiting,
      running: new Set(),
      takings: 0,
      markersSet: 0,
      nextAt: 0,
      fail: false,
      isMarked: false,
    };
    queues.set(name, queue);
    const worker = {
      markerKey: name,
      async take() {
        queue.takings++;
        await nextTurn();
        if (queue.fail) throw new Error('Redis is unavailable');
        if (queue.waiting === 0) return { nextAt: queue.nextAt };
        queue.waiting--;
        order.push(name);
        // As BullMQ sets the marker, and a waiting worker gets it.
        if (queue.waiting > 0) queue.isMarked = true;
        return { job: {}, token: '', more: queue.waiting > 0 } as LockedJob; // its content is not read
      },
      run: (_taken, reservation) =>
        new Promise<void>((resolve) => {
          const end = () => {
            queue.running.delete(end);
            reservation?.release();
            resolve();
          };
          queue.running.add(end);
        }),
      running: () => queue.running.size,
      setMarker: () => queue.markersSet++,
    } as Partial<LaneWorker> as LaneWorker; // a dispatcher uses nothing else of it here
    return {
      ...{ lane, owner: name.split('.')[0] ?? name, worker },
      reserve(): ReserveOutcome {
        wanted++;
        if (free === 0) return { outcome: 'full' };
        free--;
        let isHeld = true;
        const release = () => {
          if (!isHeld) return;
          free++;
          isHeld = false;
          dispatcher.slotsChanged();
        };
        return { outcome: 'reserved', reservation: { backend: 'a', leftMs: () => 0, use: () => undefined, release } };
      },
      hasSlot: () => free > 0,
    };
  }

  const dispatcher = createDispatcher({
    ...{ concurrency, batchConcurrency, log, onGone: ({ worker }) => gone.push(worker.markerKey) },
    payloads: { furtherJobs: () => Number.POSITIVE_INFINITY },
    linePace: createLinePace({ isBusy: () => false }), // otherwise lines would pause on a busy machine
    groupMarkers: (markers) => markers.map((name) => [name]), // as in a cluster
    async findMarkers(markers) {
      if (markers.some((name) => of(name).fail)) throw new Error('Redis is unavailable');
      return new Set(markers.filter((name) => of(name).waiting > 0));
    },
    putBack: (marker, at) => putBack.push([marker, at]),
    onAwaited: () => setImmediate(hear),
  });
  const served = new Map(Object.entries(wishes.queues).map((entry) => [entry[0], open(entry)]));
  dispatcher.serve([...served.values()]);
  function hear(): void {
    for (const name of dispatcher.awaited()) {
      const queue = of(name);
      if (!queue.isMarked) continue;
      queue.isMarked = false;
      void dispatcher.mayHaveJob(name, 0);
    }
  }

  const of = (name: string): Queue => {
    const queue = queues.get(name);
    if (queue === undefined) throw new Error(`there is no queue ${name}`);
    return queue;
  };
  t.teardown(async () => {
    const finished = dispatcher.finish();
    for (const { running } of queues.values()) for (const end of [...running]) end();
    await finished;
  });

  return {
    ...{ dispatcher, of, order, lines, gone, putBack },
    /** The queues of these names are served from now on. New ones are opened. */
    serve(...names: string[]) {
      const queues = names.map((name) => served.get(name) ?? open([name, {}]));
      for (const [index, name] of names.entries()) served.set(name, queues[index] as DispatchedQueue); // one for each name
      dispatcher.serve(queues);
    },
    free: () => free,
    /** How often a slot was requested: a worker without one asks for a larger share. */
    wanted: () => wanted,
    setFree(count: number) {
      free = count;
      dispatcher.slotsChanged();
    },
    endOne(name: string) {
      for (const end of of(name).running) return end();
    },
  };
}

async function settled(): Promise<void> {
  for (let turns = 0; turns < 40; turns++) await nextTurn();
}

test('takes waiting jobs while there are slots, and one more for each slot that becomes free', async (t) => {
  const { dispatcher, of, free, endOne } = openSubject(t, { slots: 3, queues: { m: { waiting: 10 } } });
  dispatcher.slotsChanged();
  await settled();
  t.deepEqual([of('m').running.size, of('m').waiting, free()], [3, 7, 0]);
  endOne('m');
  await settled();
  t.deepEqual([of('m').running.size, of('m').waiting], [3, 6]);
});

test('an empty queue is tried once, releases its slot, and is awaited from then on', async (t) => {
  const { dispatcher, of, free } = openSubject(t, { slots: 2, queues: { m: {}, n: {} } });
  dispatcher.slotsChanged();
  await settled();
  t.is(free(), 2);
  t.deepEqual(dispatcher.awaited().sort(), ['m', 'n']);
  t.deepEqual(dispatcher.awaited(new Set(['m'])), ['n']);
  t.is(of('m').takings, 1, 'not again for the slot that it has given back');
  dispatcher.slotsChanged();
  await settled();
  t.is(of('m').takings, 1);
  of('m').waiting = 1;
  await dispatcher.mayHaveJob('m', 0);
  t.is(of('m').running.size, 1);
});

test('a queue without a slot is not awaited, and its marker is left to a worker that has a slot', async (t) => {
  const { dispatcher, of, setFree } = openSubject(t, { slots: 1, queues: { m: {}, n: {} } });
  dispatcher.slotsChanged();
  await settled();
  of('m').waiting = 1;
  await dispatcher.mayHaveJob('m', 0);
  t.deepEqual(dispatcher.awaited(), []);
  const { takings } = of('n');
  of('n').waiting = 1;
  await dispatcher.mayHaveJob('n', 0);
  t.is(of('n').takings, takings);
  t.is(of('n').markersSet, 1);
  setFree(1);
  await settled();
  t.is(of('n').running.size, 1);
});

test('jobs that came while this worker had no slot are taken when it has one', async (t) => {
  const { dispatcher, of, setFree } = openSubject(t, { slots: 1, queues: { m: {}, n: {} } });
  dispatcher.slotsChanged();
  await settled();
  of('m').waiting = 1;
  await dispatcher.mayHaveJob('m', 0);
  of('n').waiting = 3;
  await dispatcher.checkFull();
  setFree(5);
  await settled();
  t.is(of('n').running.size, 3);
});

test('without a slot, none is requested unless jobs wait', async (t) => {
  const { dispatcher, of, wanted, setFree } = openSubject(t, { slots: 0, queues: { m: {}, n: {} } });
  dispatcher.slotsChanged();
  await dispatcher.checkFull();
  const before = wanted();
  dispatcher.slotsChanged();
  await dispatcher.mayHaveJob('m', 0);
  await dispatcher.checkFull();
  const after = wanted();
  dispatcher.slotsChanged();
  t.deepEqual([after, wanted()], [before + 1, before + 1], 'only for the marker of m, which was set again');
  of('n').waiting = 1;
  await dispatcher.checkFull();
  t.true(wanted() > after);
  setFree(1);
  await settled();
  t.is(of('n').running.size, 1);
});

test('a marker that cannot be looked for does not hide the others', async (t) => {
  const { dispatcher, of, setFree } = openSubject(t, { slots: 1, queues: { away: {}, n: {} } });
  dispatcher.slotsChanged();
  await settled();
  setFree(0);
  of('away').fail = true;
  of('n').waiting = 1;
  await t.throwsAsync(dispatcher.checkFull());
  setFree(1);
  await settled();
  t.is(of('n').running.size, 1);
  t.is(of('away').takings, 1);
});

test('models that share a backend take turns', async (t) => {
  const queues = { one: { waiting: 20 }, two: { waiting: 20 }, three: { waiting: 3 } };
  const { dispatcher, order, endOne } = openSubject(t, { slots: 1, queues });
  dispatcher.slotsChanged();
  await settled();
  for (let taken = 1; taken < 12; taken++) {
    endOne(order.at(-1) ?? '');
    await settled();
  }
  const counts = Map.groupBy(order, (name) => name);
  t.deepEqual(
    ['one', 'two', 'three'].map((name) => counts.get(name)?.length ?? 0),
    [5, 4, 3],
    String(order),
  );
});

test('requests come before lines of batches of any model', async (t) => {
  const queues = { 'one.batch': { lane: 'batch', waiting: 5 }, 'two.interactive': { waiting: 3 } } as const;
  const { dispatcher, order, endOne } = openSubject(t, { slots: 1, queues });
  dispatcher.slotsChanged();
  await settled();
  for (let taken = 1; taken < 5; taken++) {
    endOne(order.at(-1) ?? '');
    await settled();
  }
  t.deepEqual(order, [...Array(3).fill('two.interactive'), 'one.batch', 'one.batch']);
});

test('lines use what requests of their model leave of its concurrency, and at most the batch concurrency', async (t) => {
  const queues = { 'm.interactive': { waiting: 2 }, 'm.batch': { lane: 'batch', waiting: 9 } } as const;
  const both = openSubject(t, { concurrency: 5, batchConcurrency: 4, queues });
  both.dispatcher.slotsChanged();
  await settled();
  t.deepEqual([both.of('m.interactive').running.size, both.of('m.batch').running.size], [2, 3]);
  both.of('m.interactive').waiting = 9;
  await both.dispatcher.mayHaveJob('m.interactive', 0);
  await settled();
  t.is(both.of('m.interactive').running.size, 5, 'lines take no concurrency from requests');

  const alone = openSubject(t, { concurrency: 5, batchConcurrency: 4, queues: { 'm.batch': queues['m.batch'] } });
  alone.dispatcher.slotsChanged();
  await settled();
  t.is(alone.of('m.batch').running.size, 4);
});

test('a delayed job is looked for when it is due', async (t) => {
  const { dispatcher, of } = openSubject(t, { queues: { m: {} } });
  of('m').nextAt = Date.now() + 1_000; // longer than a busy machine takes to settle
  dispatcher.slotsChanged();
  await settled();
  t.is(of('m').takings, 1);
  of('m').waiting = 1;
  while (of('m').running.size === 0) await nextTurn();
  t.true(Date.now() >= of('m').nextAt - 5);
});

test('a failed taking is logged, loses no slot, and is retried', async (t) => {
  const { dispatcher, of, free, lines } = openSubject(t, { slots: 1, queues: { m: { waiting: 1 } } });
  of('m').fail = true;
  dispatcher.slotsChanged();
  await settled();
  t.is(free(), 1);
  t.deepEqual(
    lines.map(({ message }) => message),
    ['a job could not be taken; trying again'],
  );
  of('m').fail = false;
  while (of('m').running.size === 0) await nextTurn();
  t.is(of('m').waiting, 0);
});

test('a dispatcher that finishes takes no more jobs, and waits for those in progress', async (t) => {
  const { dispatcher, of, endOne } = openSubject(t, { slots: 2, queues: { m: { waiting: 5 } } });
  dispatcher.slotsChanged();
  await settled();
  let isFinished = false;
  const finishing = dispatcher.finish().then(() => {
    isFinished = true;
  });
  endOne('m');
  await settled();
  t.deepEqual([of('m').running.size, of('m').waiting, isFinished], [1, 3, false]);
  t.is(dispatcher.running(), 1);
  endOne('m');
  await finishing;
  t.is(of('m').waiting, 3);
});

test('a queue that comes is served, and keeps its place among the others', async (t) => {
  const { dispatcher, of, serve } = openSubject(t, { queues: { m: {} } });
  await settled();
  serve('m', 'n');
  of('n').waiting = 2;
  await settled();
  t.is(of('n').running.size, 2);
  t.deepEqual(dispatcher.awaited().sort(), ['m', 'n']);
});

test('from a queue that goes no job is taken, and it is gone when its last job has ended', async (t) => {
  const { dispatcher, of, serve, endOne, gone } = openSubject(t, { slots: 2, queues: { m: { waiting: 3 }, n: {} } });
  await settled();
  t.is(of('m').running.size, 2);
  serve('n');
  t.is(dispatcher.running(), 2, 'its jobs still count');
  endOne('m');
  await settled();
  t.deepEqual([of('m').waiting, gone], [1, []]);
  t.is(dispatcher.mayHaveJob('m', 0), undefined);
  endOne('m');
  await settled();
  t.deepEqual([of('m').waiting, gone, dispatcher.running()], [1, ['m'], 0]);
  t.deepEqual(dispatcher.awaited(), ['n']);
});

test('a queue that goes is open until its last job has ended there, also after the lock was released', async (t) => {
  const { of, serve, gone } = openSubject(t, { queues: { m: { waiting: 1 }, n: {} } });
  await settled();
  const [end] = of('m').running;
  of('m').running.clear();
  serve('n');
  t.deepEqual(gone, []);
  end?.();
  await settled();
  t.deepEqual(gone, ['m']);
});

test('a marker of a queue that is no longer served is put back for other workers', async (t) => {
  const { dispatcher, serve, putBack } = openSubject(t, { queues: { m: {}, n: {} } });
  await settled();
  serve('n');
  void dispatcher.mayHaveJob('n', 0);
  void dispatcher.mayHaveJob('m', 5);
  t.deepEqual(putBack, [['m', 5]]);
});

test('a queue without jobs is gone at once, and one that is still served never', async (t) => {
  const { serve, gone } = openSubject(t, { queues: { m: {}, n: {} } });
  await settled();
  serve('m');
  serve('m');
  t.deepEqual(gone, ['n']);
});
