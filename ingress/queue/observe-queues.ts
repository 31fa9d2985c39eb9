import type { ListWorkers } from '../../shared/jobs/list-workers.ts';
import { lanes } from '../../shared/lane.ts';
import type { PlanFile } from '../../shared/process/plan-file.ts';
import type { QueueDepths } from './queue-depths.ts';

const depthsAgeMsMax = 500;

/** What waits for each model, and how many workers are there for it, as metrics show it. */
export function observeQueues({
  models,
  queueDepths,
  listWorkers,
  oldestWaiting,
}: {
  models: PlanFile['models'];
  queueDepths: QueueDepths;
  listWorkers: ListWorkers;
  /** How long the oldest request of each model has been waiting, in milliseconds. */
  oldestWaiting: () => ReadonlyMap<string, number>;
}) {
  const all = Object.entries(models).map(([model, { pool }]) => ({ pool, model }));
  const pools = [...new Set(all.map(({ pool }) => pool))];
  return {
    async depths() {
      const depths = await queueDepths.read(depthsAgeMsMax);
      return all.flatMap((of) => lanes.map((lane) => ({ ...of, lane, jobs: depths.of(of.model, lane) })));
    },
    poolWorkers: () => Promise.all(pools.map(async (pool) => ({ pool, workers: (await listWorkers(pool)).length }))),
    oldest() {
      const ages = oldestWaiting();
      return all.map((of) => ({ ...of, ageMs: ages.get(of.model) ?? 0 }));
    },
  };
}
