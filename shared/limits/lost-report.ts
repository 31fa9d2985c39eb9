import type { UsageReport } from '../jobs/usage-outbox.ts';

type Asked = Pick<UsageReport, 'keyId' | 'plan' | 'model' | 'tier' | 'endpoint' | 'batch'>;

/** What a request's usage record will say should nobody live to end it. */
export function lostReport({ keyId, plan, model, tier, endpoint, batch }: Asked): UsageReport {
  return {
    ...{ keyId, plan, model, tier, endpoint, batch },
    ...{ promptTokens: 0, completionTokens: 0, cachedTokens: 0, counted: 'estimated', outcome: 'lost' },
    ...{ queueWaitMs: null, firstTokenMs: null, durationMs: null, attempts: [], endedRuns: [] },
  };
}
