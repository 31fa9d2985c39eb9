import type { PlanFile } from './plan-file.ts';

type QueueTimeouts = Pick<PlanFile, 'timeouts'> & {
  models: Readonly<Record<string, Pick<PlanFile['models'][string], 'queueMs'>>>;
};

/** How long a request for this model may wait until its job starts, in milliseconds (contract.md#d8-deadlines). */
export function queueMsOf({ models, timeouts }: QueueTimeouts, model: string): number {
  return models[model]?.queueMs ?? timeouts.queueMs;
}

/** The longest that a request of any model may wait. */
export function queueMsMax({ models, timeouts }: QueueTimeouts): number {
  return Math.max(timeouts.queueMs, ...Object.values(models).map(({ queueMs = 0 }) => queueMs));
}
