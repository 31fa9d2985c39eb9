import { Registry } from 'prom-client';
import { createQueueDepths } from '../../ingress/queue/queue-depths.ts';
import { createQueueTurns, createRequestQueues } from '../../ingress/queue/queue-turns.ts';
import { modelQueue } from '../../shared/jobs/queues.ts';
import type { PlanFile } from '../../shared/plan-file/plan-file.ts';
import type { Redis } from '../../shared/redis/connections.ts';
import { countingKey, queueDepthsKey } from '../../shared/redis/keys.ts';
import { createWorkerMetrics } from '../../workers/metrics.ts';
import { createHeldPayloads, createLaneWorker } from '../../workers/queue/lane-worker.ts';
import { recordedLog } from './recorded-log.ts';
import { jobFor } from './worker-side.ts';

const model = 'small-chat';

/**
 * Requests of an account: `jobs` at each of these times, each of which takes a worker `ticks` ticks. `again`: one more whenever one has
 * ended.
 */
export type TurnDemand = {
  account: string;
  at: readonly number[];
  jobs?: number;
  ticks: number;
  again?: boolean;
  plan?: string;
};

export type ServedJob = { account: string; order: number; askedAt: number; takenAt: number };

type Wishes = {
  slots: number;
  until: number;
  /** The interval between counts of the jobs. */
  countEvery?: number;
  /** The number of ingresses, which requests use in rotation. */
  ingresses?: number;
  plans?: Record<string, number>;
};

/**
 * Serves turns on a clock of ticks: requests of several accounts are added to a real queue, from which one job is taken per free slot.
 * Returns the jobs taken, in that order.
 */
export async function serveInTurns(redis: Redis, askings: readonly TurnDemand[], wishes: Wishes): Promise<ServedJob[]> {
  const { slots, until, countEvery = 2, ingresses = 1, plans = { free: 10 } } = wishes;
  await using side = openTurnsSide(redis, { ingresses, plans });
  const served: ServedJob[] = [];
  const running: { endsAt: number; asking: TurnDemand; end: () => Promise<void> }[] = [];
  const inFlight = new Map<string, number>();
  const counts = new Map<string, number>();
  let asked = 0;

  async function ask(asking: TurnDemand, now: number): Promise<void> {
    const { account, plan = 'free' } = asking;
    inFlight.set(account, (inFlight.get(account) ?? 0) + 1);
    const order = (counts.get(account) ?? 0) + 1;
    counts.set(account, order);
    const about = { asking, order, askedAt: now };
    await side.ask(asked++ % ingresses, { account, plan, inFlight: inFlight.get(account) ?? 0, about });
  }

  for (let now = 0; now < until; now++) {
    if (now % countEvery === 0) await side.count();
    for (const done of running.filter(({ endsAt }) => endsAt <= now)) {
      running.splice(running.indexOf(done), 1);
      await done.end();
      inFlight.set(done.asking.account, (inFlight.get(done.asking.account) ?? 0) - 1);
      if (done.asking.again) await ask(done.asking, now);
    }
    for (const asking of askings.filter(({ at }) => at.includes(now)))
      for (let jobs = 0; jobs < (asking.jobs ?? 1); jobs++) await ask(asking, now);
    while (running.length < slots) {
      const taken = await side.take();
      if (taken === undefined) break;
      const { asking, order, askedAt } = taken.about;
      served.push({ account: asking.account, order, askedAt, takenAt: now });
      running.push({ endsAt: now + asking.ticks, asking, end: taken.end });
    }
  }
  return served;
}

type About = { asking: TurnDemand; order: number; askedAt: number };

/** A queue of a model, ingresses that assign turns in it, and a worker that takes from it. */
export function openTurnsSide(
  redis: Redis,
  { ingresses, plans }: { ingresses: number; plans: Record<string, number> },
) {
  const planFile = {
    models: { [model]: { tier: 'guest', pool: 'default', backends: ['a'], outputTokensMax: 1 } },
    plans: Object.fromEntries(Object.entries(plans).map(([name, priority]) => [name, { priority }])),
  } as unknown as PlanFile; // no other field is read
  const { log } = recordedLog();
  const queues = createRequestQueues({ connection: redis, log });
  const depths = createQueueDepths({ redis, currentPlanFile: () => planFile });
  const abouts = new Map<string, { about: About; latest: { waiting: number }; onTaken: () => void }>();
  const sides = Array.from({ length: ingresses }, () => ({
    turns: createQueueTurns(),
    latest: new Map<string, { turn: number; waiting: number }>(),
  }));
  const worker = createLaneWorker({
    queue: modelQueue(model, 'interactive'),
    labels: { pool: 'default', lane: 'interactive' },
    connection: redis,
    payloads: createHeldPayloads({ bodyBytesMax: 1 }),
    shutdown: new AbortController().signal,
    metrics: createWorkerMetrics(new Registry()),
    log,
    processJob: async () => ({ outcome: 'done' }),
    failLost: async () => {},
  });
  const key = `${modelQueue(model, 'interactive').prefix}:${modelQueue(model, 'interactive').name}:prioritized`;

  return {
    key,
    /** Adds a request at the ingress of this number. */
    async ask(index: number, given: { account: string; plan: string; inFlight: number; about: About }): Promise<void> {
      const ingress = sides[index];
      if (ingress === undefined) throw new Error(`there is no ingress ${index}`);
      const { account, plan, inFlight, about } = given;
      const known = ingress.latest.get(account);
      const latest = known !== undefined && known.waiting > 0 ? known : { turn: 0, waiting: 0 };
      latest.waiting++;
      ingress.latest.set(account, latest);
      const job = jobFor('svc:replies:test', { account, model });
      const priority = ingress.turns.next({ model, plan, plans: planFile.plans, inFlight, latest });
      abouts.set(job.requestId, { about, latest, onTaken: () => ingress.turns.taken(model, priority) });
      await queues.add(job, priority);
    },
    /** Counts the jobs at these ingresses, or at all. */
    async count(indexes: readonly number[] = sides.map((_, index) => index)): Promise<void> {
      for (const index of indexes) {
        await redis.multi().del(countingKey).hset(queueDepthsKey, 'begunAt', 1).exec();
        const turns = sides[index]?.turns;
        turns?.counted(await depths.read(60_000, turns.latest()));
      }
    },
    async take() {
      const taken = await worker.take();
      if (!('job' in taken)) return undefined;
      const asked = abouts.get(taken.job.id ?? '');
      if (asked === undefined) throw new Error('a job was taken that was not added');
      const { about, latest } = asked;
      latest.waiting--;
      asked.onTaken();
      return { about, end: () => worker.run(taken, undefined) };
    },
    async [Symbol.asyncDispose]() {
      await worker[Symbol.asyncDispose]();
      await queues[Symbol.asyncDispose]();
    },
  };
}
