import { z } from 'zod';
import { controlStreamLengthMax } from '../../shared/jobs/control-messages.ts';
import type { Settle } from '../../shared/limits/settle.ts';
import type { Log } from '../../shared/process/log.ts';
import { type Redis, readStrings } from '../../shared/redis/connections.ts';
import { controlStreamKey, partitionLockKey, partitionOf } from '../../shared/redis/keys.ts';

/** Notifies the worker that drains the account's partition of new usage (decisions.md#notifications-instead-of-polling). Not awaited. */
type NotifyDrainer = (account: string) => void;

const requestSchema = z.object({ drain: z.string().regex(/^\d{1,4}(,\d{1,4})*$/) });

/**
 * Another worker gets at most four notifications a second, each of them one entry in its control stream for all of its partitions. A
 * lost notification delays usage by up to ten seconds, because each worker also checks its outboxes regularly.
 */
export function createNotifyDrainer(deps: {
  redis: Redis;
  /** The Redis with the control streams. */
  replyRedis: Redis;
  /** Notifies the drainer of this process. False if another process holds the partition. */
  notifyOwn: (partition: number) => boolean;
  log: Pick<Log, 'debug'>;
  pauseMs?: number;
}): NotifyDrainer & Disposable {
  const { redis, replyRedis, notifyOwn, log, pauseMs = 250 } = deps;
  const waiting = new Set<number>();
  let timer: NodeJS.Timeout | undefined;
  let isSending = false;
  let isClosed = false;

  async function send(): Promise<void> {
    const partitions = [...waiting];
    waiting.clear();
    const holders = await readStrings(redis, partitions.map(partitionLockKey));
    const held = partitions.map((partition, index) => ({ partition, holder: holders[index] }));
    const byHolder = Map.groupBy(held, ({ holder }) => holder ?? '');
    byHolder.delete('');
    await Promise.all(
      [...byHolder].map(([holder, own]) => {
        const entry = ['drain', own.map(({ partition }) => partition).join(',')];
        const length = ['MAXLEN', '~', controlStreamLengthMax] as const;
        return replyRedis.xadd(controlStreamKey(holder), 'NOMKSTREAM', ...length, '*', ...entry);
      }),
    );
  }

  /** One at a time, or calls would pile up while a Redis is unavailable. */
  async function sendOnce(): Promise<void> {
    timer = undefined;
    isSending = true;
    try {
      await send();
    } catch (error) {
      log.debug({ err: error }, 'another worker was not notified of new usage');
    }
    isSending = false;
    if (waiting.size > 0) sendLater();
  }

  function sendLater(): void {
    if (!isSending && !isClosed) timer ??= setTimeout(sendOnce, pauseMs);
  }

  function notifyDrainer(account: string): void {
    const partition = partitionOf(account);
    if (notifyOwn(partition)) return;
    waiting.add(partition);
    sendLater();
  }

  function close(): void {
    isClosed = true;
    clearTimeout(timer);
  }

  return Object.assign(notifyDrainer, { [Symbol.dispose]: close });
}

/** Returns the partitions that an entry of a control stream asks to drain. Other entries have none. */
export function decodeDrainRequest(fields: Readonly<Record<string, string>>): number[] {
  const entry = requestSchema.safeParse(fields);
  return entry.success ? entry.data.drain.split(',').map(Number) : [];
}

/** Notifies the drainer after each settlement. */
export function settleAndNotify(settle: Settle, notifyDrainer: NotifyDrainer): Settle {
  return async (settlement) => {
    const settled = await settle(settlement);
    if (settled === 'settled') notifyDrainer(settlement.account);
    return settled;
  };
}
