import type { Redis } from 'ioredis';
import { type Lane, lanes } from '../shared/lane.ts';
import type { PlanFile } from '../shared/plan-file.ts';
import type { QueueChoice } from '../shared/queue-choice.ts';
import { countingKey, queueDepthsKey } from '../shared/redis-keys.ts';

/** How many jobs wait. `begunAt`: when the count began, at the latest, by `performance.now()` of this process. */
export type Depths = { begunAt: number; of: (model: string, lane: Lane) => number };

export interface QueueDepths {
  /** A count that began at most about `ageMsMax` ago, whichever ingress has counted. Fails while Redis is away. */
  read(ageMsMax: number): Promise<Depths>;
}

type Parts = {
  redis: Redis;
  models: PlanFile['models'];
  choice: Pick<QueueChoice, 'queueFor'>;
  now?: () => number;
};

const lifeMs = 60_000;

/**
 * Counts the jobs of every queue, once for all ingresses: the one that finds the latest count too old counts, and the others read
 * what it has found. So what an ingress asks of Redis does not grow with the number of models.
 */
export function createQueueDepths({ redis, models, choice, now = () => performance.now() }: Parts): QueueDepths {
  const counted = Object.keys(models).flatMap((model) => lanes.map((lane) => ({ model, lane })));

  async function count(begunAt: number): Promise<Record<string, string>> {
    const counts = await Promise.all(
      counted.map(async ({ model, lane }) => {
        const { prefix, name } = choice.queueFor(model, lane);
        const [waiting, prioritized] = await Promise.all([
          redis.llen(`${prefix}:${name}:wait`),
          redis.zcard(`${prefix}:${name}:prioritized`),
        ]);
        return [fieldOf(model, lane), String(waiting + prioritized)] as const;
      }),
    );
    const found = { ...Object.fromEntries(counts), begunAt: String(begunAt) };
    await redis.multi().hset(queueDepthsKey, found).pexpire(queueDepthsKey, lifeMs).exec();
    return found;
  }

  return {
    async read(ageMsMax) {
      const askedAt = now();
      const [[seconds, microseconds], known] = await Promise.all([redis.time(), redis.hgetall(queueDepthsKey)]);
      const time = Number(seconds) * 1_000 + Math.floor(Number(microseconds) / 1_000);
      const age = time - Number(known.begunAt ?? 0);
      const isToCount = age >= ageMsMax || age < 0;
      const mayCount = isToCount && (await redis.set(countingKey, '1', 'PX', ageMsMax, 'NX')) !== null;
      const found = mayCount ? await count(time) : known;
      // Redis has read its clock after it was asked, so that the count began at this time or later.
      const begunAt = askedAt - (time - Number(found.begunAt ?? 0));
      return { begunAt, of: (model, lane) => Number(found[fieldOf(model, lane)] ?? 0) };
    },
  };
}

function fieldOf(model: string, lane: Lane): string {
  return `${lane} ${model}`;
}
