import { readFileSync } from 'node:fs';
import type { Redis } from 'ioredis';
import { z } from 'zod';
import { loadScript } from '../redis.ts';
import { requestRunsKey } from '../redis-keys.ts';

const lua = readFileSync(new URL('./start.lua', import.meta.url), 'utf8');
const answerSchema = z.tuple([z.enum(['run', 'late', 'expired']), z.int(), z.number()]);

/**
 * `run`: call a backend, `remainingMs` are left. `late`: its first start comes too late. `expired`: its deadline is over.
 * `run` is the number that every reply of this execution carries; a later execution of the same job has a higher one.
 */
export type Start =
  | { outcome: 'run'; run: number; now: number; remainingMs: number }
  | { outcome: 'late' | 'expired'; run: number };

export type StartRun = (job: {
  account: string;
  requestId: string;
  execution: string;
  startBy: number;
  deadline: number;
}) => Promise<Start>;

/** The one round trip before a job's first backend call; idempotent by `execution`. */
export function createStartRun(redis: Redis): StartRun {
  const call = loadScript(redis, { name: 'svcStart', lua, numberOfKeys: 1 });
  return async ({ account, requestId, execution, startBy, deadline }) => {
    const answer = await call([requestRunsKey(account, requestId)], [execution, startBy, deadline]);
    const [outcome, run, now] = answerSchema.parse(answer);
    return outcome === 'run' ? { outcome, run, now, remainingMs: deadline - now } : { outcome, run };
  };
}
