import type { ListWorkers } from '../../shared/fleet/follow-fleet.ts';
import type { PlanFile } from '../../shared/plan-file/plan-file.ts';
import { lanes } from '../../shared/redis/keys.ts';
import type { QueueDepths } from './queue-depths.ts';

const depthsAgeMsMax = 500;

/** Reads the values of the queue metrics: jobs that wait for each model, and the workers of each pool. */
export function observeQueues({
  currentPlanFile,
  queueDepths,
  listWorkers,
  oldestWaiting,
}: {
  currentPlanFile: () => Pick<PlanFile, 'models'>;
  queueDepths: QueueDepths;
  listWorkers: ListWorkers;
  /** How long the oldest waiting request of each model has waited, in milliseconds. */
  oldestWaiting: () => ReadonlyMap<string, number>;
}) {
  const models = () => Object.entries(currentPlanFile().models).map(([model, { pool }]) => ({ pool, model }));
  return {
    async depths() {
      const depths = await queueDepths.read(depthsAgeMsMax);
      return models().flatMap((one) => lanes.map((lane) => ({ ...one, lane, jobs: depths.of(one.model, lane) })));
    },
    poolWorkers() {
      const pools = [...new Set(models().map(({ pool }) => pool))];
      return Promise.all(pools.map(async (pool) => ({ pool, workers: (await listWorkers(pool)).length })));
    },
    oldest() {
      const ages = oldestWaiting();
      return models().map((one) => ({ ...one, ageMs: ages.get(one.model) ?? 0 }));
    },
  };
}
