import { setImmediate as nextTurn } from 'node:timers/promises';
import { z } from 'zod';
import { type ApiError, temporarilyUnavailable } from '../../shared/errors.ts';
import { fieldsOf, parseOutboxEntry } from '../../shared/jobs/usage-outbox.ts';
import { storedJson } from '../../shared/json/stored-values.ts';
import { type Redis, redisUnavailable } from '../../shared/redis/connections.ts';
import {
  endedRequestKey,
  lanes,
  leasesKey,
  outboxKey,
  outboxMarksKey,
  partitionCount,
  partitionOf,
} from '../../shared/redis/keys.ts';
import { loadLua, loadScript } from '../../shared/redis/load-lua.ts';
import type { UsageRecord } from '../../shared/store/usage/usage-record.ts';

const script = loadLua(new URL('./read-running-requests.lua', import.meta.url), {
  keys: '...leasesKeys',
  args: 'request?',
});

const states = { admitted: 'queued', started: 'running', streaming: 'streaming' } as const;

/** What a look-up needs of a lease (shared/limits/parts/lease.lua). */
const leaseSchema = storedJson.pipe(
  z.object({
    request: z.string(),
    state: z.enum(['admitted', 'started', 'streaming']),
    admittedAt: z.int(),
    report: storedJson.pipe(
      z.object({ endpoint: z.string(), model: z.string(), keyId: z.string(), batch: z.string().nullable() }),
    ),
  }),
);

const leasesSchema = z.array(z.string());

/** Parsing so many blocks the process for some milliseconds. */
const parsedAtOnce = 200;

/** Reads the requests of an account that have not ended, in both lanes. */
export function createReadLeases(redis: Redis) {
  const call = loadScript(redis, script);
  async function read(account: string, request?: string): Promise<RunningRequest[]> {
    const leasesKeys = lanes.map((lane) => leasesKey(account, lane));
    const leases = leasesSchema.parse(await redisUnavailable(call({ leasesKeys, request })));
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

/** A drainer stores so many in a fraction of a second. If more wait, the store or all drainers are away. */
const entriesMax = 5_000;
const entriesAtOnce = 500;

/** The mark of a settled request (settle.lua). */
const settledMark = /^settled \d+ .* (\d+-\d+)$/;

/** `isComplete`: no entry was left out. */
type WaitingUsage = { records: UsageRecord[]; isComplete: boolean };

/** Reads usage records that may not be in the store yet, from the outbox of each partition (contract.md#n10-outbox). */
export function createReadWaitingUsage(redis: Redis) {
  function read(partition: number, from: string, { to = '+', count }: { to?: string; count: number }) {
    return redisUnavailable(redis.xrange(outboxKey(partition), from, to, 'COUNT', count));
  }

  async function readWaiting(partition: number, isWanted: IsWanted): Promise<WaitingUsage> {
    let after = (await redisUnavailable(redis.hget(outboxMarksKey(partition), 'drained'))) ?? '0-0';
    const records: UsageRecord[] = [];
    for (let count = 0; count < entriesMax; count += entriesAtOnce) {
      const entries = await read(partition, `(${after}`, { count: entriesAtOnce });
      records.push(...recordsOf(entries, isWanted));
      after = entries.at(-1)?.[0] ?? after;
      if (entries.length < entriesAtOnce) return { records, isComplete: true };
    }
    return { records, isComplete: false };
  }

  return {
    /** Finds the record of a request that was settled: with two calls, however many records wait. */
    async findSettled(account: string, requestId: string): Promise<UsageRecord | undefined> {
      const mark = await redisUnavailable(redis.get(endedRequestKey(account, requestId)));
      const id = settledMark.exec(mark ?? '')?.[1];
      if (id === undefined) return undefined;
      return recordsOf(await read(partitionOf(account), id, { to: id, count: 1 }), of(account))[0];
    },
    /** Returns the account's records that wait, oldest first. Reads at most 5,000 entries of the partition. */
    list: (account: string): Promise<WaitingUsage> => readWaiting(partitionOf(account), of(account)),
    /** Returns the records of a request of any account. Reads at most 5,000 entries of each partition. */
    async listOf(requestId: string): Promise<WaitingUsage> {
      const found: WaitingUsage = { records: [], isComplete: true };
      for (let partition = 0; partition < partitionCount; partition++) {
        const { records, isComplete } = await readWaiting(partition, ({ request }) => request === requestId);
        found.records.push(...records);
        found.isComplete &&= isComplete;
      }
      return found;
    },
  };
}

export type ReadWaitingUsage = ReturnType<typeof createReadWaitingUsage>;

/** For a look-up that has found nothing while not all entries could be read. */
export function tooManyWait(): ApiError {
  return temporarilyUnavailable(new Error('too many usage records wait to be stored'));
}

type IsWanted = (fields: Readonly<Record<string, string>>) => boolean;

/** Other accounts share the outbox. */
function of(account: string): IsWanted {
  return (fields) => fields.account === account;
}

/** An entry that cannot be read is left to the drainers, which set it aside. */
function recordsOf(entries: readonly [id: string, fields: string[]][], isWanted: IsWanted): UsageRecord[] {
  return entries.flatMap(([id, entry]) => {
    const fields = fieldsOf(entry);
    if (!isWanted(fields)) return [];
    try {
      return [parseOutboxEntry(id, fields)];
    } catch {
      return [];
    }
  });
}

/** A request that has a lease. `queued`: no worker has begun. `streaming`: text was sent to the client. */
export type RunningRequest = Pick<
  UsageRecord,
  'requestId' | 'admittedAt' | 'endpoint' | 'model' | 'keyId' | 'batch'
> & {
  state: 'queued' | 'running' | 'streaming';
};
