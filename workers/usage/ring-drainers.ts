import type { Redis } from 'ioredis';
import { z } from 'zod';
import type { Settle } from '../../shared/limits/settle.ts';
import type { Log } from '../../shared/process/log.ts';
import { readStrings } from '../../shared/redis/connections.ts';
import { controlStreamKey, partitionLockKey, partitionOf } from '../../shared/redis/keys.ts';

/** Tells the worker that drains the account's partition that there is new usage. Not waited for. */
export type RingDrainer = (account: string) => void;

const ringSchema = z.object({ drain: z.string().regex(/^\d{1,4}(,\d{1,4})*$/) });

/** More than these at once, unread by their worker, and the oldest are dropped. */
const controlStreamLengthMax = 10_000;

/**
 * Another worker gets at most four rings a second, each one entry in its control stream for all of its partitions. A lost ring delays usage
 * by up to ten seconds, because each worker also looks at its outboxes from time to time. A worker of the release before this one has its
 * control stream under another name and gets no rings: it looks four times a second.
 */
export function createRingDrainer(deps: {
  redis: Redis;
  /** Where control streams are. */
  replyRedis: Redis;
  /** Rings the drainer of this process; false where another process looks after the partition. */
  ringOwn: (partition: number) => boolean;
  log: Pick<Log, 'debug'>;
  pauseMs?: number;
}): RingDrainer & Disposable {
  const { redis, replyRedis, ringOwn, log, pauseMs = 250 } = deps;
  const waiting = new Set<number>();
  let timer: NodeJS.Timeout | undefined;
  let isRinging = false;
  let isClosed = false;

  async function ringOthers(): Promise<void> {
    const partitions = [...waiting];
    waiting.clear();
    const holders = await readStrings(redis, partitions.map(partitionLockKey));
    const held = partitions.map((partition, index) => ({ partition, holder: holders[index] }));
    const byHolder = Map.groupBy(held, ({ holder }) => holder ?? '');
    byHolder.delete('');
    await Promise.all(
      [...byHolder].map(([holder, rung]) => {
        const entry = ['drain', rung.map(({ partition }) => partition).join(',')];
        const length = ['MAXLEN', '~', controlStreamLengthMax] as const;
        return replyRedis.xadd(controlStreamKey(holder), 'NOMKSTREAM', ...length, '*', ...entry);
      }),
    );
  }

  /** One after another, or rings would pile up while a Redis is away. */
  async function ringOnce(): Promise<void> {
    timer = undefined;
    isRinging = true;
    try {
      await ringOthers();
    } catch (error) {
      log.debug({ err: error }, 'another worker was not told of new usage');
    }
    isRinging = false;
    if (waiting.size > 0) ringLater();
  }

  function ringLater(): void {
    if (!isRinging && !isClosed) timer ??= setTimeout(ringOnce, pauseMs);
  }

  function ringDrainer(account: string): void {
    const partition = partitionOf(account);
    if (ringOwn(partition)) return;
    waiting.add(partition);
    ringLater();
  }

  function close(): void {
    isClosed = true;
    clearTimeout(timer);
  }

  return Object.assign(ringDrainer, { [Symbol.dispose]: close });
}

/** The partitions that an entry of a control stream rings for; none in any other entry. */
export function decodeRing(fields: Readonly<Record<string, string>>): number[] {
  const entry = ringSchema.safeParse(fields);
  return entry.success ? entry.data.drain.split(',').map(Number) : [];
}

/** Notifies the drainer after each settlement. */
export function settleAndRing(settle: Settle, ringDrainer: RingDrainer): Settle {
  return async (settlement) => {
    const settled = await settle(settlement);
    if (settled === 'settled') ringDrainer(settlement.account);
    return settled;
  };
}
