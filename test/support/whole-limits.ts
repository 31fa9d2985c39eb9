import type { PlanFile } from '../../shared/plan-file/plan-file.ts';
import { batchCallsMax, type Share } from '../../workers/fleet-limits/renew-shares.ts';

/** The shares of a single worker: the full limit of each backend. */
export function wholeLimits({ backends }: Pick<PlanFile, 'backends'>): (backend: string, unknown: Share) => Share {
  return (backend, unknown) => {
    const { requestsAtOnce: calls, perWorker } = backends[backend] ?? {};
    return calls === undefined || perWorker ? unknown : { calls, batchCalls: batchCallsMax(calls) };
  };
}
