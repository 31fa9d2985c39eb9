import type { Claim } from '../../shared/jobs/idempotency.ts';
import { parseOutboxEntry, type UsageReport } from '../../shared/jobs/usage-outbox.ts';
import type { AdmitAnswer, LimitCounters } from '../../shared/limits/admission.ts';
import { type Admit, type Allowance, createAdmit, type LookKey, leaseLifeMs } from '../../shared/limits/admit.ts';
import { createRelease } from '../../shared/limits/release.ts';
import { createSeed } from '../../shared/limits/seed.ts';
import { createSettle, type Settlement } from '../../shared/limits/settle.ts';
import type { Redis } from '../../shared/redis/connections.ts';
import { type Lane, outboxKey, partitionOf, versionKey } from '../../shared/redis/keys.ts';
import type { UsageRecord, UsageSum } from '../../shared/store/usage/usage-record.ts';
import type { UsageDetail } from '../../shared/store/usage/usage-tables.ts';
import { createEndLeases } from '../../workers/requests/expire-leases.ts';
import { createRenewLeases } from '../../workers/requests/start-lease-heartbeat.ts';
import { createMarkStreaming, createStartRun } from '../../workers/requests/start-run.ts';
import { changeLease } from './change-lease.ts';

export const timeouts = { queueMs: 30_000, requestMs: 600_000 };
const version = 1;

/** The usage record of a request that no process has ended. */
export const lostReport: UsageReport = {
  keyId: 'key_01',
  plan: 'free',
  model: 'small-chat',
  tier: 'guest',
  endpoint: '/v1/chat/completions',
  batch: null,
  promptTokens: 0,
  completionTokens: 0,
  cachedTokens: 0,
  counted: 'estimated',
  outcome: 'lost',
  queueWaitMs: null,
  firstTokenMs: null,
  durationMs: null,
  attempts: [],
  endedRuns: [],
};

type Options = {
  account?: string;
  /** Of the requests. Counters are those of the account. */
  lane?: Lane;
  outboxLengthMax?: number;
  keptBytesMax?: number;
  sum?: () => UsageSum | undefined;
  /** What the store has of the usage of further keys. */
  details?: () => UsageDetail[];
};
type Asked = { requestId: string; tokens?: number; allowance?: Partial<Allowance>; claim?: Claim; key?: LookKey };

type Settled = Partial<Pick<Settlement, 'run' | 'settler' | 'claim'>> & {
  tokens?: number;
  admittedAt?: number;
  overage?: boolean;
  keyId?: string;
};

/** All scripts of one account in a lane, as ingresses and workers use them together. The store returns `sum`, or nothing. */
export function openLimits(redis: Redis, options: Options = {}) {
  const {
    account = 'user:alice',
    lane = 'interactive',
    outboxLengthMax = 1_000_000,
    keptBytesMax,
    sum = () => undefined,
    details = () => [],
  } = options;
  const admission: Admit = createAdmit(redis, {
    ...{ timeouts: () => timeouts, outboxLengthMax },
    ...(keptBytesMax !== undefined && { keptBytesMax }),
  });
  const startRun = createStartRun(redis);
  const markStreaming = createMarkStreaming(redis);
  const settle = createSettle(redis, { pauseMs: 1 });
  const release = createRelease(redis);
  const endLeases = createEndLeases(redis, { requestMs: () => timeouts.requestMs });
  const renewLeases = createRenewLeases(redis);
  const seed = createSeed({ redis, store: { findUsageSum: async () => sum(), findKeyUsage: async () => details() } });

  /** The keys of the requests that were not of the default key. */
  const keyIds = new Map<string, string>();
  const keyOf = (name: string) => keyIds.get(name) ?? 'key_01';

  /** Request ids are unique across accounts, and so are job ids, which contain no colon. They have no spaces. */
  const idOf = (name: string) => `${account}/${name}`.replace(/[: ]/g, '-');

  return {
    account,
    admission,
    idOf,
    /** Replaces the times of a lease. */
    async setTimes(name: string, { startBy, deadline }: { startBy: number; deadline: number }): Promise<void> {
      await changeLease(redis, { account, requestId: idOf(name), fields: { startBy, deadline } });
    },
    admit({ requestId: name, tokens = 100, allowance = {}, claim, key }: Asked): Promise<AdmitAnswer> {
      if (key !== undefined) keyIds.set(name, key.id);
      return admission.admit(
        { account, requestId: idOf(name), version, lane, ...(claim && { claim }), ...(key && { key }) },
        {
          ...{ allowance: { overageEnabled: false, ...allowance }, reservedTokens: tokens },
          report: { ...lostReport, ...(key && { keyId: key.id }) },
        },
      );
    },
    async counters(key?: LookKey): Promise<LimitCounters> {
      const answer = await admission.readCounters({ account, requestId: 'look', version, key });
      if (answer.outcome !== 'counters') throw new Error(`the caller is not current: ${answer.outcome}`);
      return answer.counters;
    },
    start: (name: string, taken = 1) => startRun({ account, requestId: idOf(name), taken, lane }),
    markStreaming: (name: string, run = 1) => markStreaming({ account, requestId: idOf(name), run }),
    renew: (name: string, lifeMs = leaseLifeMs) => renewLeases([{ account, requestId: idOf(name) }], lifeMs),
    /** Returns whether it was settled. */
    async settle(
      name: string,
      {
        tokens = 10,
        run = 1,
        settler = 'worker',
        admittedAt = 0,
        overage = false,
        claim,
        keyId = keyOf(name),
      }: Settled = {},
    ) {
      const report: UsageReport = { ...lostReport, keyId, outcome: 'completed', counted: 'reported', endedRuns: [run] };
      const admission = { admittedAt, deadline: admittedAt + timeouts.requestMs, overage };
      const ofRequest = { account, requestId: idOf(name), lane };
      const settled = await settle({ ...ofRequest, run, settler, chargedTokens: tokens, report, admission, claim });
      return settled === 'settled';
    },
    release(name: string, { claim, run }: { claim?: Claim | undefined; run?: number | 'any' | undefined } = {}) {
      return release({
        account,
        keyId: keyOf(name),
        requestId: idOf(name),
        lane,
        claim,
        ...(run !== undefined && { run }),
      });
    },
    /** Ends leases due by this time of Redis's clock. The default is all. */
    endLeases: (dueBy = Number.MAX_SAFE_INTEGER) => endLeases({ account, lane }, dueBy),
    seedKey: (keyId: string, month: string) => seed({ account, keyId }, month),
    seed: (month: string, mode?: Parameters<typeof seed>[2]) => seed({ account }, month, mode),
    /** Makes the caller current, and counts the month from here on. */
    async prepare(month: string): Promise<void> {
      await redis.set(versionKey(account), version);
      await seed({ account }, month);
    },
    /** The records that wait for the store, oldest first. */
    async outbox(): Promise<UsageRecord[]> {
      const entries = await redis.xrange(outboxKey(partitionOf(account)), '-', '+');
      return entries.map(([id, fields]) => parseOutboxEntry(id, pairsOf(fields)));
    },
  };
}

export type LimitsSide = ReturnType<typeof openLimits>;

function pairsOf(fields: readonly string[]): Record<string, string> {
  const pairs = fields.flatMap((name, index) => (index % 2 === 0 ? [[name, fields[index + 1] ?? '']] : []));
  return Object.fromEntries(pairs);
}
