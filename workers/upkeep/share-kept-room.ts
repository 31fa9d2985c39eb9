import { Gauge, type Registry } from 'prom-client';
import { ifAvailable, type Redis, redisNow } from '../../shared/redis/connections.ts';
import {
  type AccountKind,
  accountKinds,
  keptBytesKeyOf,
  keptRoomKeyOf,
  partitionCount,
} from '../../shared/redis/keys.ts';
import { readRedisMemory } from '../../shared/redis/wait-for-redis.ts';

/** Bytes of answers that are kept for repeats or reserved for running requests, and the most that may be. */
export type KeptTotals = { used: Record<AccountKind, number>; max: Record<AccountKind, number> };

const partitions = Array.from({ length: partitionCount }, (_, partition) => partition);
const minuteMs = 60_000;
/** While no worker does this, the bound ends. Another worker takes over within 20 s. */
const roomLifeMs = 60_000;
const readMemoryEveryMs = 10_000;
/** One that has not summed for so long may have missed a bound of another worker. */
const missedMs = 5_000;

/**
 * Sums the bytes of kept answers over all partitions, and writes into each how much of the budget of all accounts is left
 * (contract.md#ho1-budgets-of-kept-answers): a quarter of Redis's memory, of which devices may take a quarter. Admission reads only that.
 * While less than half is used there is no need for a bound. Fails as Redis does; a node of a cluster that is away counts as before.
 */
export function createShareKeptRoom({
  redis,
  report,
  now = () => performance.now(),
}: {
  redis: Redis;
  report: (totals: KeptTotals) => void;
  now?: () => number;
}): () => Promise<void> {
  const seen = new Map<string, number>();
  /** When this worker last knew that there is no bound. */
  let unboundedAt = Number.NEGATIVE_INFINITY;
  let memory = { bytes: 0, readAt: Number.NEGATIVE_INFINITY };

  async function memoryBytes(): Promise<number> {
    if (now() - memory.readAt >= readMemoryEveryMs) memory = { bytes: await readRedisMemory(redis), readAt: now() };
    return memory.bytes;
  }

  async function sumOf(key: string, minute: number): Promise<number> {
    const sums = await ifAvailable(redis, redis.hgetall(key));
    if (sums === undefined) return seen.get(key) ?? 0;
    const past = Object.keys(sums).filter((field) => Number(field) < minute);
    if (past.length > 0) await ifAvailable(redis, redis.hdel(key, ...past));
    const sum = Object.entries(sums).reduce(
      (all, [field, bytes]) => all + (Number(field) < minute ? 0 : Number(bytes)),
      0,
    );
    seen.set(key, sum);
    return sum;
  }

  /** Usually nothing is kept: then one command is enough. */
  async function readUsed(): Promise<KeptTotals['used']> {
    const keys = accountKinds.map((kind) => partitions.map((partition) => keptBytesKeyOf(partition, kind)));
    if (!redis.isCluster && (await redis.exists(...keys.flat())) === 0) return { user: 0, device: 0 };
    const minute = Math.floor((await redisNow(redis)) / minuteMs);
    const sums = await Promise.all(keys.map((ofKind) => Promise.all(ofKind.map((key) => sumOf(key, minute)))));
    const [user = 0, device = 0] = sums.map((ofKind) => ofKind.reduce((one, other) => one + other, 0));
    return { user, device };
  }

  async function write(kind: AccountKind, room: number | undefined): Promise<void> {
    const writeOne = (key: string) => (room === undefined ? redis.del(key) : redis.set(key, room, 'PX', roomLifeMs));
    await Promise.all(
      partitions.map((partition) => ifAvailable<unknown>(redis, writeOne(keptRoomKeyOf(partition, kind)))),
    );
  }

  return async function shareKeptRoom() {
    const [used, bytes] = [await readUsed(), await memoryBytes()];
    // Nothing is known of a Redis that does not say how much memory it may use.
    const all = bytes === 0 ? Number.MAX_SAFE_INTEGER : Math.floor(bytes / 4);
    const max = { user: all, device: Math.floor(all / 4) };
    report({ used, max });
    const left = all - used.user - used.device;
    const isShort = left < all / 2 || used.device > max.device / 2;
    if (isShort) {
      unboundedAt = Number.NEGATIVE_INFINITY;
      await Promise.all([
        write('user', Math.max(0, left)),
        write('device', Math.max(0, Math.min(left, max.device - used.device))),
      ]);
    } else {
      if (now() - unboundedAt > missedMs) await Promise.all(accountKinds.map((kind) => write(kind, undefined)));
      unboundedAt = now();
    }
  };
}

export type KeptMetrics = ReturnType<typeof createKeptMetrics>;

/** One worker of the fleet sums; the gauges of all others have no value. */
const reportedForMs = 5_000;

export function createKeptMetrics(registry: Registry) {
  let latest: (KeptTotals & { at: number }) | undefined;
  const observe = (name: string, help: string, read: (totals: KeptTotals, kind: AccountKind) => number) =>
    new Gauge({
      name,
      help,
      labelNames: ['accounts'],
      registers: [registry],
      collect() {
        this.reset();
        if (latest === undefined || performance.now() - latest.at > reportedForMs) return;
        for (const kind of accountKinds) this.set({ accounts: kind }, read(latest, kind));
      },
    });
  observe(
    'svc_kept_answer_bytes',
    'Bytes of answers that are kept for repeats or reserved for running requests, of users and of devices. One worker reports it',
    ({ used }, kind) => used[kind],
  );
  observe(
    'svc_kept_answer_bytes_max',
    'Most bytes of answers that may be kept: all together, and those of devices. One worker reports it',
    ({ max }, kind) => max[kind],
  );
  return {
    reportKept(totals: KeptTotals): void {
      latest = { ...totals, at: performance.now() };
    },
  };
}
