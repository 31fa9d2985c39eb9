import { LRUCache } from 'lru-cache';
import { z } from 'zod';
import { type BurstLimit, rateLimitExceeded } from '../../shared/errors.ts';
import { storedJson } from '../../shared/json/json-values.ts';
import type { Log } from '../../shared/process/log.ts';
import type { Redis } from '../../shared/redis/connections.ts';
import { loadLua, loadScript } from '../../shared/redis/load-lua.ts';

const script = loadLua(new URL('./minute-counts.lua', import.meta.url), { keys: 'key', args: 'minuteMs' });

/** `leftMs` is the time until the count restarts at 0. */
export type MinuteCount = { count: number; leftMs: number };

const minuteMs = 60_000;
/** The count of an evicted subject is read again from Redis with its next event. */
const subjectsMax = 10_000;
const answerSchema = storedJson.pipe(z.object({ count: z.int(), leftMs: z.int() }));

/** Counts events by subject (a network or an account), over all ingresses, within a minute that begins with its first event. */
export function createMinuteCounts({
  redis,
  keyOf,
  log,
  now = () => performance.now(),
}: {
  redis: Redis;
  keyOf: (subject: string) => string;
  log: Pick<Log, 'debug'>;
  /** A monotonic clock in milliseconds. */
  now?: () => number;
}) {
  const run = loadScript(redis, script);
  const counts = new LRUCache<string, { count: number; until: number }>({ max: subjectsMax });

  /** Returns the last count that this ingress received, without I/O. Other ingresses may have counted more since. */
  function known(subject: string): MinuteCount {
    const found = counts.get(subject);
    if (found === undefined || found.until <= now()) return { count: 0, leftMs: 0 };
    return { count: found.count, leftMs: Math.ceil(found.until - now()) };
  }

  function set(subject: string, { count, leftMs }: MinuteCount): void {
    counts.set(subject, { count, until: now() + leftMs });
  }

  async function shared(subject: string): Promise<MinuteCount> {
    return answerSchema.parse(await run({ key: keyOf(subject), minuteMs }));
  }

  return {
    known,
    /** Counts one more event. Never fails: while Redis is unavailable, this ingress counts its own events. */
    async add(subject: string): Promise<MinuteCount> {
      try {
        set(subject, await shared(subject));
      } catch (error) {
        log.debug({ err: error }, 'an event was counted by this ingress only');
        const { count, leftMs } = known(subject);
        set(subject, { count: count + 1, leftMs: leftMs || minuteMs });
      }
      return known(subject);
    },
  };
}

export type MinuteCounts = ReturnType<typeof createMinuteCounts>;

/** Counts a call of this subject, a network or an account. Fails with `rate_limit_exceeded` if there are too many within a minute. */
export type LimitCalls = (subject: string, perMinute: number) => Promise<void>;

/** By the type of the limit: the message for too many calls. */
const messages = {
  // contract.md#l5-guest-mint
  guest_calls: 'Too many calls from this network.',
  // contract.md#ho4-what-an-account-creates
  settings_limit: 'This account has changed its keys and settings too often within a minute.',
} as const satisfies Partial<Record<BurstLimit, string>>;

/** A subject that is known to exceed the limit is refused without I/O. While Redis is unavailable, each ingress counts its own calls. */
export function createLimitCalls({ kind, calls }: { kind: keyof typeof messages; calls: MinuteCounts }): LimitCalls {
  return async function limitCalls(subject, perMinute) {
    const known = calls.known(subject);
    const { count, leftMs } = known.count > perMinute ? known : await calls.add(subject);
    if (count <= perMinute) return;
    throw rateLimitExceeded(kind, `${messages[kind]} Retry in ${leftMs} ms.`, leftMs);
  };
}
