import type { UsageReport } from '../../shared/usage-outbox.ts';
import type { ChatCall } from '../chat-call.ts';
import type { Caller } from '../shared-callers.ts';

/** What a request's usage record will say should nobody live to end it. */
export function lostReport(
  { keyId = '', plan }: Caller,
  { model, tier, endpoint }: Pick<ChatCall, 'model' | 'tier' | 'endpoint'>,
): UsageReport {
  return {
    ...{ keyId, plan, model, tier, endpoint, batch: null },
    ...{ promptTokens: 0, completionTokens: 0, cachedTokens: 0, counted: 'estimated', outcome: 'lost' },
    ...{ queueWaitMs: null, firstTokenMs: null, durationMs: null, attempts: [], endedRuns: [] },
  };
}
