import type { Redis } from 'ioredis';
import { z } from 'zod';
import type { Lane } from '../lane.ts';
import { loadScript } from '../redis.ts';
import { endedRequestKey, leaseEndsKey, leasesKey } from '../redis-keys.ts';
import { leaseGraceMs } from './lease-life.ts';
import { readLua } from './read-lua.ts';

const answerSchema = z.union([
  z.tuple([z.literal('run'), z.int(), z.int(), z.int()]),
  z.tuple([z.enum(['late', 'expired', 'interrupted']), z.int(), z.int(), z.int()]),
  z.tuple([z.enum(['settled', 'gone', 'superseded']), z.int()]),
]);

/**
 * `run`: call a backend, `remainingMs` are left. On anything else call none. `late`: its first start comes too late;
 * `expired`: its deadline is over; both still hold the lease. `interrupted`: text of an earlier run went to the client.
 * `settled`: it was charged for, and its end got lost. `gone`: it was released, or ended by itself. `superseded`: another
 * worker has the job, so there is nothing to say. `run` is the number that every reply of this taking of the job carries; a
 * later one has a higher number.
 */
export type Start =
  | { outcome: 'run'; run: number; now: number; remainingMs: number }
  | { outcome: 'late' | 'expired' | 'interrupted'; run: number; now: number }
  | { outcome: 'settled' | 'gone' | 'superseded'; run: number };

/** `taken` is how often the job was taken from its queue, this time included. */
export type StartRun = (job: { account: string; requestId: string; taken: number; lane?: Lane }) => Promise<Start>;

/** The one round trip before a job's first backend call; idempotent by `taken`. */
export function createStartRun(redis: Redis): StartRun {
  const lua = readLua(new URL('./start.lua', import.meta.url), ['standing', 'leases']);
  const call = loadScript(redis, { name: 'svcStart', lua, numberOfKeys: 3 });
  return async ({ account, requestId, taken, lane = 'interactive' }) => {
    const keys = [leasesKey(account, lane), leaseEndsKey(account, lane), endedRequestKey(account, requestId)];
    const answer = answerSchema.parse(await call(keys, [requestId, taken, leaseGraceMs.started[lane]]));
    if (answer.length === 2) return { outcome: answer[0], run: answer[1] };
    const [outcome, run, now, deadline] = answer;
    return outcome === 'run' ? { outcome, run, now, remainingMs: deadline - now } : { outcome, run, now };
  };
}
