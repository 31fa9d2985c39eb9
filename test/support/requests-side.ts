import { createRequestLookUp } from '../../ingress/requests/find-requests.ts';
import type { UsageReport } from '../../shared/jobs/usage-outbox.ts';
import { createSettle } from '../../shared/limits/settle.ts';
import { createRegistry } from '../../shared/process/metrics.ts';
import type { Redis } from '../../shared/redis/connections.ts';
import { type Lane, outboxKey, outboxMarksKey, partitionOf } from '../../shared/redis/keys.ts';
import type { Store } from '../../shared/store/records/store.ts';
import { createEndLeases } from '../../workers/requests/expire-leases.ts';
import { createMarkStreaming, createStartRun } from '../../workers/requests/start-run.ts';
import { createDrainPartition } from '../../workers/usage/drain-partition.ts';
import { createTrimOutbox } from '../../workers/usage/outbox.ts';
import { createUsageMetrics } from '../../workers/usage/usage-metrics.ts';
import { lostReport, openLimits, timeouts } from './limits-side.ts';
import { recordedLog } from './recorded-log.ts';

type Ending = Partial<UsageReport> & { tokens?: number };

/**
 * The requests of one account, moved by the scripts that move them, and the look-up of an ingress. Nothing is drained unless a test does
 * it.
 */
export function openRequests(redis: Redis, { account, store }: { account: string; store: Store }) {
  const limits = openLimits(redis, { account });
  const startRun = createStartRun(redis);
  const markStreaming = createMarkStreaming(redis);
  const settle = createSettle(redis, { pauseMs: 1 });
  const endLeases = createEndLeases(redis, { requestMs: () => timeouts.requestMs });
  const metrics = createUsageMetrics(createRegistry());
  const drainPartition = createDrainPartition({ redis, store: store.usage, metrics, log: recordedLog().log });
  const trimOutbox = createTrimOutbox(redis);
  const partition = partitionOf(account);

  return {
    ...{ account, ...createRequestLookUp({ redis, store }) },
    prepare: limits.prepare,
    release: limits.release,
    async admit(requestId: string, { lane = 'interactive' as Lane, report = {} as Partial<UsageReport> } = {}) {
      const admitted = await limits.admission.admit(
        { account, requestId, lane, version: 1 },
        { allowance: { overageEnabled: false }, reservedTokens: 100, report: { ...lostReport, ...report } },
      );
      if (admitted.outcome !== 'admitted') throw new Error(`not admitted: ${admitted.outcome}`);
      return admitted.admission.admittedAt;
    },
    start: (requestId: string, lane: Lane = 'interactive') => startRun({ account, requestId, lane, taken: 1 }),
    stream: (requestId: string) => markStreaming({ account, requestId, run: 1 }),
    settle: (requestId: string, { tokens = 10, ...report }: Ending = {}, lane: Lane = 'interactive') =>
      settle({
        ...{ account, requestId, lane, run: 1, settler: 'taking 1', chargedTokens: tokens },
        report: { ...lostReport, outcome: 'completed', counted: 'reported', endedRuns: [1], ...report },
        admission: { admittedAt: 0, deadline: 0, overage: false },
      }),
    expire: (lane: Lane = 'interactive') => endLeases({ account, lane }, Number.MAX_SAFE_INTEGER),
    drain: () => drainPartition(partition),
    async trim(): Promise<void> {
      const drained = await redis.hget(outboxMarksKey(partition), 'drained');
      await trimOutbox(partition, drained ?? '0-0');
    },
    waiting: () => redis.xlen(outboxKey(partition)),
  };
}

export type RequestsSide = ReturnType<typeof openRequests>;
