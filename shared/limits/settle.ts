import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import { z } from 'zod';
import type { UsageReport } from '../jobs/usage-outbox.ts';
import type { Lane } from '../lane.ts';
import { loadScript } from '../redis/connections.ts';
import {
  countersKey,
  endedRequestKey,
  leaseEndsKey,
  leasesKey,
  lostRequestsKey,
  outboxKey,
  partitionOf,
} from '../redis/keys.ts';
import { loadLua } from '../redis/load-lua.ts';

/**
 * The end of a request: `run` is the one that ends it, `settler` an id of whoever does, by which the same call twice is told
 * from another's. `tokens` are charged. The admission counts where Redis has lost the lease.
 */
export type Settlement = {
  account: string;
  requestId: string;
  run: number;
  settler: string;
  lane?: Lane;
  tokens: number;
  report: UsageReport;
  admission: { admittedAt: number; deadline: number; overage: boolean };
};

const answerSchema = z.enum(['settled', 'refused', 'lost']);

/**
 * `refused`: it is not this run's to settle any more, for a later one has begun, or it was ended before. `lost`: its lease has
 * expired; nothing is charged, and no other process ends the request.
 */
export type Settled = z.infer<typeof answerSchema>;
export type Settle = (settlement: Settlement) => Promise<Settled>;

const attemptsMax = 10;

/**
 * Charges what was used instead of what was reserved, and puts the usage on its way to the store; once. A call that fails is
 * repeated for some seconds, and then fails as it did: the lease is left to end by itself.
 */
export function createSettle(redis: Redis, { pauseMs = 500 }: { pauseMs?: number } = {}): Settle {
  const lua = loadLua(new URL('./settle.lua', import.meta.url));
  const call = loadScript(redis, { name: 'svcSettle', lua, numberOfKeys: 6 });
  return async ({ account, requestId, run, settler, lane, tokens, report, admission }) => {
    const keys = [
      countersKey(account),
      leasesKey(account, lane),
      leaseEndsKey(account, lane),
      lostRequestsKey(account),
      endedRequestKey(account, requestId),
      outboxKey(partitionOf(account)),
    ];
    const { admittedAt, overage, deadline } = admission;
    const known = [monthOf(admittedAt), Number(overage), admittedAt, deadline] as const;
    const args = [account, requestId, run, settler, tokens, JSON.stringify(report), ...known];
    for (let attempt = 1; ; attempt++) {
      try {
        return answerSchema.parse(await call(keys, args));
      } catch (error) {
        if (attempt === attemptsMax) throw error;
        await sleep(pauseMs);
      }
    }
  };
}

/** `YYYY-MM` in UTC. */
function monthOf(ms: number): string {
  return new Date(ms).toISOString().slice(0, 7);
}
