import { type Redis, redisUnavailable } from '../../shared/redis/connections.ts';
import { leaseHoldersKey, parseLeaseHolder, partitionCount } from '../../shared/redis/keys.ts';
import type { RequestPlaces } from './find-request.ts';
import { ended, type FoundRequest, requestIdPattern } from './found-request.ts';
import { tooManyWait } from './read-waiting-usage.ts';

/** Finds a request of any account by its id, for operators. Fails with `SERVICE_UNAVAILABLE` while Redis or the store is away. */
export type FindAnyRequest = (id: string) => Promise<AnyRequest | undefined>;

type AnyRequest = { account: string; request: FoundRequest };

/** Accounts that are asked together. */
const accountsAtOnce = 100;

/**
 * Most requests are in the store, which is asked first. Any other is looked for as by its own account (find-request.ts), where it is while
 * it runs and then where it moves. For that, every account with recent requests is asked and every outbox is read: it is for people, not
 * for programs.
 */
export function createFindAnyRequest({
  redis,
  leases,
  waitingUsage,
  store,
}: Pick<RequestPlaces, 'leases' | 'waitingUsage' | 'store'> & { redis: Redis }): FindAnyRequest {
  async function findRunning(requestId: string): Promise<AnyRequest | undefined> {
    const accounts = await accountsWithLeases();
    for (let from = 0; from < accounts.length; from += accountsAtOnce) {
      const asked = accounts.slice(from, from + accountsAtOnce);
      const found = await Promise.all(
        asked.map(async (account) => ({ account, request: await leases.find(account, requestId) })),
      );
      const [hit] = found.flatMap(({ account, request }) => (request === undefined ? [] : [{ account, request }]));
      if (hit !== undefined) return hit;
    }
    return undefined;
  }

  /** And those that were charged in the last two minutes. */
  async function accountsWithLeases(): Promise<string[]> {
    const partitions = Array.from({ length: partitionCount }, (_, partition) => partition);
    const holders = await redisUnavailable(
      Promise.all(partitions.map((partition) => redis.zrange(leaseHoldersKey(partition), '0', '-1'))),
    );
    return [...new Set(holders.flat().map((holder) => parseLeaseHolder(holder).account))];
  }

  async function findStored(requestId: string): Promise<AnyRequest | undefined> {
    const record = await store.usage.findUsageRecord(requestId);
    return record && { account: record.account, request: ended(record) };
  }

  async function findMoving(requestId: string): Promise<AnyRequest | undefined> {
    const running = await findRunning(requestId);
    if (running !== undefined) return running;
    const { records, isComplete } = await waitingUsage.listOf(requestId);
    const record = records.at(-1);
    if (record !== undefined) return { account: record.account, request: ended(record) };
    const stored = await findStored(requestId);
    if (stored === undefined && !isComplete) throw tooManyWait();
    return stored;
  }

  return async function findAnyRequest(id) {
    if (!requestIdPattern.test(id)) return undefined;
    const stored = await findStored(id).catch(() => undefined); // without the store, one that moves is found
    return stored ?? findMoving(id);
  };
}
