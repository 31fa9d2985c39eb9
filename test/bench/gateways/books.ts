import { setTimeout as sleep } from 'node:timers/promises';
import { openStore } from '../../../shared/process/open-store.ts';
import { countersKey, endedRequestKey, outboxKey, outboxMarksKey, partitionOf } from '../../../shared/redis/keys.ts';
import { monthOf } from '../../../shared/store/records/account.ts';
import type { UsageRecord } from '../../../shared/store/usage/usage-record.ts';
import { openRedis } from '../../support/open-redis.ts';
import { recordedLog } from '../../support/recorded-log.ts';
import type { Books } from './gateway.ts';
import type { Call, ModelServer } from './places.ts';

const settledWithinMs = 30_000;
const lookEveryMs = 100;

/** Redis's counters of the account: admitted requests, used tokens. Undefined at the end of a day (UTC), or of a month. */
export type GatewayCounts = { admitted: number | undefined; used: number | undefined };

type Options = { redisUrl: string; storeUrl: string; account: string; modelServer: Pick<ModelServer, 'calls'> };

/**
 * Compares the usage records of one account with the calls of the model server, run by run. The counters of Redis start again with each
 * day (UTC) and month: a run across that boundary is judged only by its requests.
 */
export async function openBooks({ redisUrl, storeUrl, account, modelServer }: Options) {
  await using parts = new AsyncDisposableStack();
  const redis = parts.adopt(openRedis(redisUrl), (connection) => connection.disconnect());
  const store = parts.use(await openStore(storeUrl, recordedLog()));
  const partition = partitionOf(account);
  let before = await counted();

  async function counted() {
    const month = monthOf(new Date());
    const names = ['day', 'dayRequests', `${month}:chargedTokens`, `${month}:reservedTokens`];
    const [day, admitted, used, reserved] = await redis.hmget(countersKey(account), ...names);
    const numbers = { admitted: Number(admitted ?? 0), used: Number(used ?? 0), reserved: Number(reserved ?? 0) };
    return { month, day: day ?? null, ...numbers };
  }

  /** Entries that the outbox keeps after they were stored are not waiting. */
  async function isBroughtToStore(): Promise<boolean> {
    const [drained, [last]] = await Promise.all([
      redis.hget(outboxMarksKey(partition), 'drained'),
      redis.xrevrange(outboxKey(partition), '+', '-', 'COUNT', 1),
    ]);
    return last === undefined || last[0] === drained;
  }

  /** The requests of this list whose end Redis remembers, which proves that they were admitted. */
  async function remembered(ids: readonly string[]): Promise<Set<string>> {
    const found = await Promise.all(ids.map((id) => redis.exists(endedRequestKey(account, id))));
    return new Set(ids.filter((_, index) => found[index] === 1));
  }

  /** Returns when each call has a record, or will never have one. */
  async function recordsOf(calls: readonly Call[]): Promise<Map<string, UsageRecord>> {
    const records = new Map<string, UsageRecord>();
    const giveUpAt = performance.now() + settledWithinMs;
    while (true) {
      for (const { id } of calls) {
        const record = records.has(id) ? undefined : await store.usage.findUsageRecord(id);
        if (record !== undefined) records.set(id, record);
      }
      if (calls.every(({ id }) => records.has(id)) || performance.now() > giveUpAt) return records;
      await sleep(lookEveryMs);
    }
  }

  const owned = parts.move();
  return {
    /** Requests whose clients left at the end of the load may still be in progress. */
    async drained(): Promise<void> {
      const giveUpAt = performance.now() + settledWithinMs;
      const isUnderWay = async () => (await counted()).reserved > 0 || !(await isBroughtToStore());
      while ((await isUnderWay()) && performance.now() < giveUpAt) await sleep(lookEveryMs);
    },
    async books(): Promise<Books> {
      // Calls that another gateway had in progress have a different form of id.
      const calls = (await modelServer.calls()).filter(({ id }) => id.startsWith('req_'));
      const records = await recordsOf(calls);
      const admitted = await remembered(calls.flatMap(({ id }) => (records.has(id) ? [] : [id])));
      const { kept, recomputed } = await store.usage.recomputeUsage(account, monthOf(new Date()), '');
      const after = await counted();
      const sums = { kept: kept?.total.chargedTokens ?? 0, recomputed: recomputed?.total.chargedTokens ?? 0 };
      const news = {
        admitted: before.day === null || after.day === before.day ? after.admitted - before.admitted : undefined,
        used: after.month === before.month ? after.used - before.used : undefined,
      };
      const drift = Math.abs(sums.kept - sums.recomputed) + Math.abs(after.used - sums.recomputed);
      before = after;
      const books = compareBooks({ calls, records, admitted, counted: news });
      return { ...books, lostUsage: books.lostUsage + drift };
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

type Evidence = {
  calls: readonly Call[];
  records: ReadonlyMap<string, UsageRecord>;
  /** Requests that have no record and were admitted. */
  admitted?: ReadonlySet<string>;
  counted: GatewayCounts;
};

/**
 * Counts requests that reached the model server and were not admitted, each by its own record or mark and all of them by the counter;
 * tokens that it produced for answered requests, or that records charge, and that are missing on the other side; and calls beyond the
 * first of a request. A request whose client has left is charged at most what was produced.
 */
export function compareBooks({ calls, records, admitted = new Set(), counted }: Evidence): Books {
  const byRequest = Map.groupBy(calls, ({ id }) => id);
  const charged = [...records.values()].reduce((sum, { chargedTokens }) => sum + chargedTokens, 0);
  let lost = Math.abs(charged - (counted.used ?? charged));
  let unknown = 0;
  for (const [id, ofRequest] of byRequest) {
    const produced = ofRequest.reduce((sum, { tokens }) => sum + tokens, 0);
    const record = records.get(id);
    if (record === undefined && !admitted.has(id)) unknown += 1;
    if (record === undefined) lost += produced;
    else if (record.outcome === 'completed') lost += Math.abs(produced - record.chargedTokens);
    else lost += Math.max(0, record.chargedTokens - produced);
  }
  return {
    overAdmitted: Math.max(unknown, byRequest.size - (counted.admitted ?? byRequest.size)),
    lostUsage: lost,
    duplicates: calls.length - byRequest.size,
  };
}
