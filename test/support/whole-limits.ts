import type { PlanFile } from '../../shared/plan-file/plan-file.ts';
import { batchCallsMax, type Share } from '../../workers/shares/renew-shares.ts';

/** The shares of a single worker: the full limit of each backend. */
export function wholeLimits({ backends }: Pick<PlanFile, 'backends'>): (backend: string) => Share {
  return (backend) => {
    const calls = backends[backend]?.requestsAtOnce ?? 0;
    return { calls, batchCalls: batchCallsMax(calls) };
  };
}
