import { LRUCache } from 'lru-cache';
import { z } from 'zod';
import { ApiError, type BurstLimit, type ErrorCode, rateLimitExceeded } from '../../shared/errors.ts';
import { storedJson } from '../../shared/json/stored-values.ts';
import type { Log } from '../../shared/process/log.ts';
import type { Redis } from '../../shared/redis/connections.ts';
import { loadLua, loadScript } from '../../shared/redis/load-lua.ts';

const script = loadLua(new URL('./minute-counts.lua', import.meta.url), { keys: 'key', args: 'minuteMs' });

/** `leftMs` is the time until the count restarts at 0. */
type MinuteCount = { count: number; leftMs: number };

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

/**
 * Looks up a secret that may have been guessed, for a subject: a network or an account. A subject with too many failed lookups within a
 * minute gets `rate_limit_exceeded`, without a lookup.
 */
export type LimitFailures = <Found>(subject: string, lookUp: () => Promise<Found>) => Promise<Found>;

/** By the type of the limit: the code with which a lookup fails, and the message for too many failures. */
const kinds = {
  // contract.md#l4-failed-authentication
  auth_failures: { failure: 'INVALID_KEY', message: 'Too many unknown API keys were sent from this network.' },
  // contract.md#j5-overage-and-top-up-codes
  code_failures: { failure: 'NOT_FOUND', message: 'This account has sent too many unknown top-up codes.' },
} as const satisfies Partial<Record<BurstLimit, { failure: ErrorCode; message: string }>>;

/** The lookups of one subject: how many run, and those that wait. */
type Line = { running: number; waiting: PromiseWithResolvers<void>[] };

/**
 * Runs only as many lookups at once as failures are left, because each of them may fail. Otherwise a client could start any number of
 * them before its first failure is counted (decisions.md#failed-lookups-counted-by-network). The others wait for a few milliseconds, in
 * order.
 */
export function createLimitFailures({
  kind,
  failures,
  perMinute,
}: {
  kind: keyof typeof kinds;
  failures: MinuteCounts;
  perMinute: number;
}): LimitFailures {
  const { failure, message } = kinds[kind];
  const lines = new Map<string, Line>();

  function enter(subject: string): Promise<void> {
    const line = lines.get(subject) ?? { running: 0, waiting: [] };
    lines.set(subject, line);
    const turn = Promise.withResolvers<void>();
    line.waiting.push(turn);
    advance(subject, line);
    return turn.promise;
  }

  function leave(subject: string): void {
    const line = lines.get(subject);
    if (line === undefined) throw new Error('a lookup ended that had not begun');
    line.running--;
    advance(subject, line);
  }

  function advance(subject: string, line: Line): void {
    const { count, leftMs } = failures.known(subject);
    for (let next = line.waiting[0]; next !== undefined; next = line.waiting[0]) {
      if (count < perMinute && count + line.running >= perMinute) break;
      line.waiting.shift();
      if (count >= perMinute) {
        next.reject(rateLimitExceeded(kind, `${message} Retry in ${leftMs} ms.`, leftMs));
      } else {
        line.running++;
        next.resolve();
      }
    }
    if (line.running === 0 && line.waiting.length === 0) lines.delete(subject);
  }

  return async function limitFailures(subject, lookUp) {
    await enter(subject);
    let counting: Promise<unknown> = Promise.resolve();
    try {
      return await lookUp();
    } catch (error) {
      if (error instanceof ApiError && error.code === failure) counting = failures.add(subject);
      throw error;
    } finally {
      // The client does not wait for the count, but the lookup counts as running until then.
      void counting.then(() => leave(subject));
    }
  };
}
