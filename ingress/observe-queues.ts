import { lanes } from '../shared/lane.ts';
import type { PlanFile } from '../shared/plan-file.ts';
import type { QueueDepths } from './queue-depths.ts';
import type { WaitingRequests } from './replies/waiting-requests.ts';

type Parts = { models: PlanFile['models']; queueDepths: QueueDepths; waitingRequests: Pick<WaitingRequests, 'oldest'> };

const depthsAgeMsMax = 500;

/** What waits for each model, as metrics show it. */
export function observeQueues({ models, queueDepths, waitingRequests }: Parts) {
  const all = Object.entries(models).map(([model, { pool }]) => ({ pool, model }));
  return {
    async depths() {
      const depths = await queueDepths.read(depthsAgeMsMax);
      return all.flatMap((of) => lanes.map((lane) => ({ ...of, lane, jobs: depths.of(of.model, lane) })));
    },
    oldest() {
      const ages = waitingRequests.oldest();
      return all.map((of) => ({ ...of, ageMs: ages.get(of.model) ?? 0 }));
    },
  };
}
