import { setImmediate as nextTurn } from 'node:timers/promises';
import { z } from 'zod';
import { lanes } from '../../shared/lane.ts';
import { type Redis, redisUnavailable } from '../../shared/redis/connections.ts';
import { leasesKey } from '../../shared/redis/keys.ts';
import { storedJson } from '../../shared/store/adapters/stored-json.ts';
import type { RunningRequest } from './found-request.ts';

const states = { admitted: 'queued', started: 'running', streaming: 'streaming' } as const;

const reportSchema = z.object({ endpoint: z.string(), model: z.string(), keyId: z.string() });

/** What a look-up needs of a lease (shared/limits/parts/leases.lua). */
const leaseSchema = storedJson.pipe(
  z.object({
    state: z.enum(['admitted', 'started', 'streaming']),
    admittedAt: z.int(),
    report: storedJson.pipe(reportSchema),
  }),
);

/** Parsing so many blocks the process for some milliseconds. */
const parsedAtOnce = 200;

/** Reads the requests of an account that have not ended, in both lanes. */
export interface ReadLeases {
  find(account: string, requestId: string): Promise<RunningRequest | undefined>;
  /** In no order. */
  list(account: string): Promise<RunningRequest[]>;
}

export function createReadLeases(redis: Redis): ReadLeases {
  return {
    async find(account, requestId) {
      const found = await redisUnavailable(
        Promise.all(lanes.map((lane) => redis.hget(leasesKey(account, lane), requestId))),
      );
      const lease = found.find((text) => text !== null);
      return lease == null ? undefined : parseLease(requestId, lease);
    },
    async list(account) {
      const found = await redisUnavailable(Promise.all(lanes.map((lane) => redis.hgetall(leasesKey(account, lane)))));
      const leases = found.flatMap((lane) => Object.entries(lane));
      const requests: RunningRequest[] = [];
      for (let from = 0; from < leases.length; from += parsedAtOnce) {
        const piece = leases.slice(from, from + parsedAtOnce);
        requests.push(...piece.map(([id, lease]) => parseLease(id, lease)));
        await nextTurn();
      }
      return requests;
    },
  };
}

function parseLease(requestId: string, text: string): RunningRequest {
  const { state, admittedAt, report } = leaseSchema.parse(text);
  return { requestId, state: states[state], admittedAt: new Date(admittedAt), ...report };
}
