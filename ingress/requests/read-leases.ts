import { setImmediate as nextTurn } from 'node:timers/promises';
import { z } from 'zod';
import { lanes } from '../../shared/lane.ts';
import { type Redis, redisUnavailable } from '../../shared/redis/connections.ts';
import { leasesKey } from '../../shared/redis/keys.ts';
import { loadLua, loadScript } from '../../shared/redis/load-lua.ts';
import { storedJson } from '../../shared/stored-values.ts';
import type { RunningRequest } from './found-request.ts';

const script = loadLua(new URL('./read-leases.lua', import.meta.url), { keys: '...leasesKeys', args: 'request?' });

const states = { admitted: 'queued', started: 'running', streaming: 'streaming' } as const;

/** What a look-up needs of a lease (shared/limits/parts/lease.lua). */
const leaseSchema = storedJson.pipe(
  z.object({
    request: z.string(),
    state: z.enum(['admitted', 'started', 'streaming']),
    admittedAt: z.int(),
    report: storedJson.pipe(z.object({ endpoint: z.string(), model: z.string(), keyId: z.string() })),
  }),
);

/** Parsing so many blocks the process for some milliseconds. */
const parsedAtOnce = 200;

/** Reads the requests of an account that have not ended, in both lanes. */
export function createReadLeases(redis: Redis) {
  const call = loadScript(redis, script);
  async function read(account: string, request?: string): Promise<RunningRequest[]> {
    const leasesKeys = lanes.map((lane) => leasesKey(account, lane));
    const leases = z.array(z.string()).parse(await redisUnavailable(call({ leasesKeys, request })));
    const requests: RunningRequest[] = [];
    for (let from = 0; from < leases.length; from += parsedAtOnce) {
      requests.push(...leases.slice(from, from + parsedAtOnce).map(parseLease));
      await nextTurn();
    }
    return requests;
  }

  return {
    find: async (account: string, requestId: string): Promise<RunningRequest | undefined> =>
      (await read(account, requestId))[0],
    /** In no order. */
    list: (account: string): Promise<RunningRequest[]> => read(account),
  };
}

export type ReadLeases = ReturnType<typeof createReadLeases>;

function parseLease(text: string): RunningRequest {
  const { request, state, admittedAt, report } = leaseSchema.parse(text);
  return { requestId: request, state: states[state], admittedAt: new Date(admittedAt), ...report };
}
