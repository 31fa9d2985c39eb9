import { type Redis, redisUnavailable } from '../../shared/redis/connections.ts';
import { leaseHoldersKey, parseLeaseHolder, partitionCount } from '../../shared/redis/keys.ts';
import type { RequestPlaces } from './find-request.ts';
import { ended, type FoundRequest, requestIdPattern } from './found-request.ts';

/** Finds a request of any account by its id, for operators. Fails with `SERVICE_UNAVAILABLE` while Redis or the store is away. */
export type FindAnyRequest = (id: string) => Promise<{ account: string; request: FoundRequest } | undefined>;

/** Accounts that are asked together. */
const accountsAtOnce = 100;

/**
 * A request that has ended is found by its record. One that runs, or has ended within the last seconds, is known only by account: so every
 * account that has one is asked. That takes three commands for each of them, so it is for people, not for programs.
 */
export function createFindAnyRequest({
  redis,
  leases,
  waitingUsage,
  store,
}: Pick<RequestPlaces, 'leases' | 'waitingUsage' | 'store'> & { redis: Redis }): FindAnyRequest {
  async function findOf(account: string, requestId: string): Promise<FoundRequest | undefined> {
    const running = await leases.find(account, requestId);
    if (running !== undefined) return running;
    const settled = await waitingUsage.findSettled(account, requestId);
    return settled && ended(settled);
  }

  /** Those with leases, and those that were charged in the last two minutes. */
  async function recentAccounts(): Promise<string[]> {
    const partitions = Array.from({ length: partitionCount }, (_, partition) => partition);
    const holders = await redisUnavailable(
      Promise.all(partitions.map((partition) => redis.zrange(leaseHoldersKey(partition), '0', '-1'))),
    );
    return [...new Set(holders.flat().map((holder) => parseLeaseHolder(holder).account))];
  }

  return async function findAnyRequest(id) {
    if (!requestIdPattern.test(id)) return undefined;
    const stored = await store.findUsageRecord(id);
    if (stored !== undefined) return { account: stored.account, request: ended(stored) };
    const accounts = await recentAccounts();
    for (let from = 0; from < accounts.length; from += accountsAtOnce) {
      const asked = accounts.slice(from, from + accountsAtOnce);
      const found = await Promise.all(asked.map(async (account) => ({ account, request: await findOf(account, id) })));
      const [hit] = found.flatMap(({ account, request }) => (request === undefined ? [] : [{ account, request }]));
      if (hit !== undefined) return hit;
    }
    return undefined;
  };
}
