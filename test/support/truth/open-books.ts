import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ExecutionContext } from 'ava';
import { Queue } from 'bullmq';
import { allQueues, queueOptions } from '../../../shared/jobs/queues.ts';
import { createSeed } from '../../../shared/limits/seed.ts';
import { type PlanFile, parsePlanFile } from '../../../shared/plan-file/plan-file.ts';
import type { Redis } from '../../../shared/redis/connections.ts';
import { leaseEndsKey, leasesKey } from '../../../shared/redis/keys.ts';
import type { Store } from '../../../shared/store/records/store.ts';
import type { UsageMonth, UsageRecord } from '../../../shared/store/usage/usage-record.ts';
import type { Stack } from '../../stack/stack.ts';
import { createKeyClient } from '../key-client.ts';
import type { AskedRequest } from './ask.ts';
import type { Evidence } from './contradictions.ts';
import type { FollowedOutboxes } from './follow-outboxes.ts';

type Deps = {
  stack: Stack;
  redis: Redis;
  store: Store;
  outboxes: FollowedOutboxes;
  keys: ReadonlyMap<string, string>;
};

const lookEveryMs = 200;

/** The places where the service counts. `keys` has the key of each account. */
export function openBooks({ stack, redis, store, outboxes, keys }: Deps) {
  const accounts = [...keys.keys()];
  const queues = allQueues(planFileOf(stack).models).map((id) => new Queue(id.name, queueOptions(id, redis)));

  async function leasesHeld(): Promise<number> {
    const held = accounts.map(async (account) => {
      const counts = await Promise.all([redis.hlen(leasesKey(account)), redis.zcard(leaseEndsKey(account))]);
      return Math.max(...counts);
    });
    return (await Promise.all(held)).reduce((sum, count) => sum + count, 0);
  }

  async function jobs(): Promise<number> {
    const states = ['waiting', 'prioritized', 'active', 'delayed', 'failed'] as const;
    const counts = await Promise.all(queues.map((queue) => queue.getJobCountByTypes(...states)));
    return counts.reduce((sum, count) => sum + count, 0);
  }

  async function recordsOf(requestIds: Iterable<string>): Promise<Map<string, UsageRecord>> {
    const records = new Map<string, UsageRecord>();
    for (const requestId of new Set(requestIds)) {
      const record = await store.usage.findUsageRecord(requestId);
      if (record !== undefined) records.set(requestId, record);
    }
    return records;
  }

  return {
    leasesHeld,
    jobs,
    untilNothingRuns: () => until(async () => (await jobs()) === 0),
    untilAllHasEnded: () => until(async () => (await leasesHeld()) === 0),
    untilAllIsStored: () => until(outboxes.areDrained),

    async evidence(asked: readonly AskedRequest[]): Promise<Evidence> {
      const calls = stack.modelServers.flatMap((server) =>
        server.calls().map((call) => ({ ...call, backend: server.name })),
      );
      const ids = [...asked, ...calls, ...outboxes.events].flatMap(({ requestId }) => requestId ?? []);
      return { asked, calls, events: outboxes.events, records: await recordsOf(ids) };
    },

    /** Requires that records, sums, Redis and the responses to clients agree for every account and month, and that nothing is held. */
    async agree(t: ExecutionContext, { records }: Evidence): Promise<void> {
      const months = await store.usage.listUsageMonths({ limit: 1_000 });
      const all = [...records.values()];
      t.deepEqual(months.map(nameOf), [...new Set(all.map(nameOf))].sort(), 'a sum for each month with records');
      for (const month of months) await agreesOn(t, month, all);
      for (const [account, key] of keys) await isReported(t, { account, key }, all);
    },
  };

  async function agreesOn(t: ExecutionContext, { account, month }: UsageMonth, all: readonly UsageRecord[]) {
    const records = all.filter((record) => record.account === account && record.month === month);
    const used = chargedTo(records);
    const { kept, recomputed } = await store.usage.recomputeUsage(account, month, '');
    t.deepEqual(kept, recomputed, `${account}: drift`);
    t.is(recomputed?.total.chargedTokens, used, account);
    t.is(recomputed?.total.requests, records.length, `${account}: each record is counted once`);
    const { before, after } = await createSeed({ redis, store: store.usage })({ account }, month, 'compare');
    t.deepEqual(before, { chargedTokens: used, reservedTokens: 0, overageTokens: 0 }, `${account}: Redis`);
    t.deepEqual(before, after, `${account}: Redis against the store and the outbox`);
  }

  /** By `GET /billing/quota`, and by the headers of a request that is refused immediately. */
  async function isReported(
    t: ExecutionContext,
    { account, key }: { account: string; key: string },
    all: UsageRecord[],
  ) {
    const client = createKeyClient(stack);
    const { body } = await client.send('GET', '/billing/quota', { bearer: key });
    const { period, used, reserved } = body as { period: { start: string }; used: number; reserved: number };
    const month = period.start.slice(0, 7);
    const expected = chargedTo(all.filter((record) => record.account === account && record.month === month));
    t.deepEqual([used, reserved], [expected, 0], `${account}: GET /billing/quota`);
    const look = await client.send('POST', '/v1/chat/completions', { bearer: key, body: { model: 'no-such-model' } });
    t.is(look.status, 400);
    t.is(look.headers.get('x-svc-quota-used'), String(expected), account);
  }
}

export type Books = ReturnType<typeof openBooks>;

export function planFileOf({ planFile }: Stack): PlanFile {
  const parsed = parsePlanFile(readFileSync(planFile, 'utf8'));
  if ('issues' in parsed) throw new Error(JSON.stringify(parsed.issues));
  return parsed.planFile;
}

const nameOf = ({ account, month }: UsageMonth) => `${account} ${month}`;

export function chargedTo(records: readonly UsageRecord[]): number {
  return records.reduce((sum, { chargedTokens }) => sum + chargedTokens, 0);
}

async function until(condition: () => Promise<boolean>): Promise<void> {
  while (!(await condition())) await sleep(lookEveryMs);
}
