import type { Redis } from 'ioredis';
import type { Lane } from '../lane.ts';
import type { Log } from '../process/log.ts';
import { readStrings } from '../redis/connections.ts';
import { sharesKey } from '../redis/keys.ts';
import { modelQueue, poolQueue, type QueueId } from './queues.ts';

/**
 * Selects the queue of a new job: the model's own queue, unless its pool is served only by workers of the previous release, which read the
 * pool's queue. Workers of this release read both (contract.md#s3-queues-of-pools).
 */
export interface QueueChoice extends Disposable {
  queueFor(model: string, lane: Lane): QueueId;
  /** Checks now; also runs every few seconds. Never fails: while Redis is unavailable, nothing changes. */
  look(): Promise<void>;
}

/** Workers of this release renew their shares twice a second. */
const aliveMs = 10_000;

export function createQueueChoice({
  redis,
  models,
  log,
  everyMs = 5_000,
}: {
  redis: Redis;
  models: Readonly<Record<string, { pool: string }>>;
  log: Log;
  everyMs?: number;
}): QueueChoice {
  const pools = [...new Set(Object.values(models).map(({ pool }) => pool))];
  let before = new Set<string>();

  async function find(): Promise<void> {
    const fields = pools.map((pool) => `pool ${pool}`);
    const [[seconds], [renewedAt, ...counts]] = await Promise.all([
      redis.time(),
      redis.hmget(sharesKey, 'renewedAt', ...fields),
    ]);
    const areAlive = Number(seconds) * 1_000 - Number(renewedAt ?? 0) < aliveMs;
    const without = pools.filter((_, index) => !areAlive || Number.parseInt(counts[index] ?? '0', 10) === 0);
    const checks = await readStrings(redis, without.map(stalledCheckKey));
    before = new Set(without.filter((_, index) => checks[index] !== null));
  }

  const look = () =>
    find().catch((error: unknown) => log.debug({ err: error }, 'cannot determine which workers are alive'));
  const looking = setInterval(look, everyMs);

  return {
    queueFor(model, lane) {
      const { pool } = models[model] ?? {};
      return pool !== undefined && before.has(pool) ? poolQueue(pool, lane) : modelQueue(model, lane);
    },
    look,
    [Symbol.dispose]: () => clearInterval(looking),
  };
}

/** BullMQ's loop, which workers of the previous release run, sets this string while it checks for stalled jobs. */
function stalledCheckKey(pool: string): string {
  const { prefix, name } = poolQueue(pool, 'interactive');
  return `${prefix}:${name}:stalled-check`;
}
