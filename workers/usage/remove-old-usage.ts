import { setTimeout as sleep } from 'node:timers/promises';
import type { Log } from '../../shared/process/log.ts';
import type { Redis } from '../../shared/redis/connections.ts';
import { agreedNow } from '../../shared/redis/connections.ts';
import type { UsageStore } from '../../shared/store/usage/usage-store.ts';

/** The pause after a piece, as a multiple of its duration: the store has four fifths of the time for other work. */
const pauseFactor = 4;
const pauseMsMax = 10_000;

/**
 * Removes the usage of months that closed more than `monthsKept` months ago, and hours that are no longer kept, piece by piece, with pauses
 * that follow the speed of the store. It uses Redis's clock, and removes nothing if that differs from this machine's clock by a day or
 * more.
 */
export function createRemoveOldUsage({
  redis,
  store,
  monthsKept,
  log,
  now,
  pause = (ms, signal) => sleep(ms, undefined, { signal }).catch(() => {}),
}: {
  redis: Redis;
  store: Pick<UsageStore, 'removeUsageBefore' | 'removeOldHours'>;
  monthsKept: () => number;
  log: Pick<Log, 'info' | 'warn'>;
  now?: () => number;
  pause?: (ms: number, signal: AbortSignal) => Promise<void>;
}): (signal: AbortSignal) => Promise<void> {
  async function removeAll(removePiece: () => Promise<number>, signal: AbortSignal): Promise<number> {
    let removed = 0;
    for (let piece = -1; piece !== 0 && !signal.aborted; ) {
      const startedAt = performance.now();
      piece = await removePiece();
      removed += piece;
      await pause(Math.min(pauseMsMax, pauseFactor * (performance.now() - startedAt)), signal);
    }
    return removed;
  }

  return async function removeOldUsage(signal) {
    const nowMs = await agreedNow(redis, now);
    if (nowMs === undefined) {
      log.warn({}, 'the clocks of Redis and of this machine are a day apart or more; no old usage is removed');
      return;
    }
    const month = firstMonthKept(nowMs, monthsKept());
    const removed = await removeAll(() => store.removeUsageBefore(month), signal);
    if (removed > 0) log.info({ before: month, removed }, 'usage of months that are no longer kept was removed');
    await removeAll(() => store.removeOldHours(nowMs), signal);
  };
}

/** `YYYY-MM`, UTC. The current month and `monthsKept` closed ones before it are kept. */
export function firstMonthKept(nowMs: number, monthsKept: number): string {
  const now = new Date(nowMs);
  return new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - monthsKept)).toISOString().slice(0, 7);
}
