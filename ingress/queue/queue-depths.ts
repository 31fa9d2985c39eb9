import type { ListWorkers } from '../../shared/fleet/follow-fleet.ts';
import { modelQueue } from '../../shared/jobs/queues.ts';
import type { PlanFile } from '../../shared/plan-file/plan-file.ts';
import { ifAvailable, type Redis, redisNow } from '../../shared/redis/connections.ts';
import { countingKey, type Lane, lanes, queueDepthsKey } from '../../shared/redis/keys.ts';
import type { Depths } from './queue-bounds.ts';
import { createReadHeads, isLaterTurn, latestOf, type TakenTurn } from './queue-turns.ts';

const lifeMs = 60_000;

/**
 * Counts the jobs of every queue once for all ingresses: the ingress that finds the latest count too old counts, and the others read its
 * result. So the load of the others on Redis does not grow with the number of models.
 */
export function createQueueDepths({
  redis,
  currentPlanFile,
  now = () => performance.now(),
}: {
  redis: Redis;
  currentPlanFile: () => Pick<PlanFile, 'models' | 'plans'>;
  now?: () => number;
}) {
  const readHeads = createReadHeads(redis);

  type Field = readonly [name: string, value: string];

  async function countQueue({ model, lane }: { model: string; lane: Lane }, known: Record<string, string>) {
    const { prefix, name } = modelQueue(model, lane);
    const [waiting, prioritized] = await Promise.all([
      redis.llen(`${prefix}:${name}:wait`),
      redis.zcard(`${prefix}:${name}:prioritized`),
    ]);
    const turns = lane === 'interactive' && prioritized > 0 ? await readTurns(model, known) : [];
    return [[fieldOf(model, lane), String(waiting + prioritized)], ...turns] satisfies Field[];
  }

  async function count(begunAt: number, known: Record<string, string>): Promise<Record<string, string>> {
    const queues = Object.keys(currentPlanFile().models).flatMap((model) => lanes.map((lane) => ({ model, lane })));
    const counts = await Promise.all(
      // In a cluster, the queues of other models can be counted while the node of one is unavailable.
      queues.map((queue) => ifAvailable(redis, countQueue(queue, known))),
    );
    const found = {
      ...known,
      ...Object.fromEntries(counts.flatMap((fields) => fields ?? [])),
      begunAt: String(begunAt),
    };
    await redis.multi().hset(queueDepthsKey, found).pexpire(queueDepthsKey, lifeMs).exec();
    return found;
  }

  async function readTurns(model: string, known: Record<string, string>): Promise<(readonly [string, string])[]> {
    return (await readHeads(model, currentPlanFile().plans)).map(({ rank, turn }) => {
      const field = turnFieldOf(model, rank);
      return [field, String(latestOf(Number(known[field] ?? 0), turn - 1))] as const;
    });
  }

  return {
    /**
     * Returns a count that began at most about `ageMsMax` ago, by any ingress. Stores the turns of `taken` that are later than the stored
     * ones for the other ingresses, which cannot read them from the head of an empty queue. Fails while Redis is unavailable.
     */
    async read(ageMsMax: number, taken: readonly TakenTurn[] = []): Promise<Depths> {
      const askedAt = now();
      const [time, stored] = await Promise.all([redisNow(redis, queueDepthsKey), redis.hgetall(queueDepthsKey)]);
      const later = laterTurns(taken, stored);
      const known = { ...stored, ...later };
      const age = time - Number(known.begunAt ?? 0);
      const isTooOld = age >= ageMsMax || age < 0;
      const mayCount = isTooOld && (await redis.set(countingKey, '1', 'PX', ageMsMax, 'NX')) !== null;
      const found = mayCount ? await count(time, known) : known;
      if (!mayCount && Object.keys(later).length > 0) await redis.hset(queueDepthsKey, later);
      // Redis read its clock after `askedAt`, so the count began at this time or later. Both times are rounded down to a millisecond.
      const begunAt = askedAt - (time - Number(found.begunAt ?? 0)) - 1;
      return {
        begunAt,
        of: (model, lane) => Number(found[fieldOf(model, lane)] ?? 0),
        takenOf: (model, rank) => numberOf(found[turnFieldOf(model, rank)]),
      };
    },
  };
}

export type QueueDepths = ReturnType<typeof createQueueDepths>;

/** The turns that are later than the stored ones, by their fields. */
function laterTurns(taken: readonly TakenTurn[], stored: Record<string, string>): Record<string, string> {
  const later = taken.flatMap(({ model, rank, turn }) => {
    const field = turnFieldOf(model, rank);
    const known = numberOf(stored[field]);
    return known === undefined || isLaterTurn(turn, known) ? [[field, String(turn)] as const] : [];
  });
  return Object.fromEntries(later);
}

function numberOf(text: string | undefined): number | undefined {
  return text === undefined ? undefined : Number(text);
}

function turnFieldOf(model: string, rank: number): string {
  return `turn ${rank} ${model}`;
}

function fieldOf(model: string, lane: Lane): string {
  return `${lane} ${model}`;
}

const depthsAgeMsMax = 500;

/** Reads the values of the queue metrics: jobs that wait for each model, and the workers of each pool. */
export function observeQueues({
  currentPlanFile,
  queueDepths,
  listWorkers,
  oldestWaiting,
}: {
  currentPlanFile: () => Pick<PlanFile, 'models'>;
  queueDepths: QueueDepths;
  listWorkers: ListWorkers;
  /** How long the oldest waiting request of each model has waited, in milliseconds. */
  oldestWaiting: () => ReadonlyMap<string, number>;
}) {
  const models = () => Object.entries(currentPlanFile().models).map(([model, { pool }]) => ({ pool, model }));
  return {
    async depths() {
      const depths = await queueDepths.read(depthsAgeMsMax);
      return models().flatMap((one) => lanes.map((lane) => ({ ...one, lane, jobs: depths.of(one.model, lane) })));
    },
    poolWorkers() {
      const pools = [...new Set(models().map(({ pool }) => pool))];
      return Promise.all(pools.map(async (pool) => ({ pool, workers: (await listWorkers(pool)).length })));
    },
    oldest() {
      const ages = oldestWaiting();
      return models().map((one) => ({ ...one, ageMs: ages.get(one.model) ?? 0 }));
    },
  };
}
