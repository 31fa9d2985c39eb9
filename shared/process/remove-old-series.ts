import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import type { PlanFile } from '../plan-file/plan-file.ts';
import { poolsOf } from '../plan-file/pools-of.ts';
import { noModel } from './metrics.ts';

type Labels = Partial<Record<string, string | number>>;
type Deps = { registry: Registry; currentPlanFile: () => Pick<PlanFile, 'models' | 'backends'> };

/**
 * Returns a function that removes the series of models, pools and backends that are no longer in the plan file. Without this, each change
 * of their names would leave series until the process ends (contract.md#w2-labels). Call it after each scrape. A series is removed after
 * the second scrape that it was old in, because the first may have been a person's.
 */
export function createRemoveOldSeries({ registry, currentPlanFile }: Deps): () => Promise<void> {
  let seenOld = new Set<string>();

  return async function removeOldSeries() {
    const isOld = createIsOld(currentPlanFile());
    const stillOld = new Set<string>();
    for (const metric of registry.getMetricsAsArray()) {
      if (!isKept(metric)) continue;
      const { name, values } = await metric.get();
      for (const { labels, value } of values) {
        if (!isOld(labels) || (metric instanceof Gauge && value !== 0)) continue;
        const { le: _, ...own } = labels as Record<string, string>; // of a histogram, each bucket is a value
        const series = JSON.stringify([name, own]);
        if (seenOld.has(series)) metric.remove(own);
        else stillOld.add(series);
      }
    }
    seenOld = stillOld;
  };
}

function createIsOld({ models, backends }: ReturnType<Deps['currentPlanFile']>): (labels: Labels) => boolean {
  const pools = new Set<string | number>(poolsOf({ models }));
  return ({ model = noModel, pool = noModel, backend }) =>
    (model !== noModel && !Object.hasOwn(models, model)) ||
    (pool !== noModel && !pools.has(pool)) ||
    (backend !== undefined && !Object.hasOwn(backends, backend));
}

/** Whether its values last from one scrape to the next. A gauge that is collected sets its series again at each. */
function isKept(metric: unknown): metric is Counter | Histogram | Gauge {
  return metric instanceof Counter || metric instanceof Histogram || (metric instanceof Gauge && !isCollected(metric));
}

function isCollected(gauge: Gauge): boolean {
  return (gauge as { collect?: unknown }).collect !== undefined; // its type says that each has it
}
