import type { UsageReport } from '../jobs/usage-outbox.ts';

type Asked = Pick<UsageReport, 'keyId' | 'plan' | 'model' | 'requestedModel' | 'tier' | 'endpoint' | 'batch'>;

/** Returns the usage report that is recorded if no process is left to end the request. */
export function lostReport({ keyId, plan, model, requestedModel, tier, endpoint, batch }: Asked): UsageReport {
  return {
    ...{ keyId, plan, model, ...(requestedModel !== undefined && { requestedModel }), tier, endpoint, batch },
    ...{ promptTokens: 0, completionTokens: 0, cachedTokens: 0, counted: 'estimated', outcome: 'lost' },
    ...{ queueWaitMs: null, firstTokenMs: null, durationMs: null, attempts: [], endedRuns: [] },
  };
}
