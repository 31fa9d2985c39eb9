import { readFileSync } from 'node:fs';
import type { Redis } from 'ioredis';
import { LRUCache } from 'lru-cache';
import { z } from 'zod';
import type { Log } from '../../shared/process/log.ts';
import { loadScript } from '../../shared/redis/connections.ts';

const lua = readFileSync(new URL('./minute-counts.lua', import.meta.url), 'utf8');

/** `leftMs` is the time until the count begins again at 0. */
export type MinuteCount = { count: number; leftMs: number };

/** Events by network, over all ingresses, within a minute that begins with a network's first event. */
export interface MinuteCounts {
  /** The count as this ingress last heard it; no I/O. Other ingresses may have counted more since. */
  known(network: string): MinuteCount;
  /** Counts one more. Never fails: while Redis is away, this ingress counts the events that it sees. */
  add(network: string): Promise<MinuteCount>;
}

const minuteMs = 60_000;
/** A network that is forgotten is known again with its next event: Redis has its count. */
const networksMax = 10_000;
const answerSchema = z.tuple([z.int(), z.int()]);

export function createMinuteCounts({
  redis,
  keyOf,
  log,
  now = () => performance.now(),
}: {
  redis: Redis;
  keyOf: (network: string) => string;
  log: Pick<Log, 'debug'>;
  /** Milliseconds of a clock that only goes forward. */
  now?: () => number;
}): MinuteCounts {
  const run = loadScript(redis, { name: 'svcCountInMinute', lua, numberOfKeys: 1 });
  const counts = new LRUCache<string, { count: number; until: number }>({ max: networksMax });

  function known(network: string): MinuteCount {
    const found = counts.get(network);
    if (found === undefined || found.until <= now()) return { count: 0, leftMs: 0 };
    return { count: found.count, leftMs: Math.ceil(found.until - now()) };
  }

  function set(network: string, { count, leftMs }: MinuteCount): void {
    counts.set(network, { count, until: now() + leftMs });
  }

  async function shared(network: string): Promise<MinuteCount> {
    const [count, leftMs] = answerSchema.parse(await run([keyOf(network)], [minuteMs]));
    return { count, leftMs };
  }

  return {
    known,
    async add(network) {
      try {
        set(network, await shared(network));
      } catch (error) {
        log.debug({ err: error }, 'an event was counted by this ingress alone');
        const { count, leftMs } = known(network);
        set(network, { count: count + 1, leftMs: leftMs || minuteMs });
      }
      return known(network);
    },
  };
}
