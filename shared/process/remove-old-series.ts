import { Counter, Histogram, type Registry } from 'prom-client';
import { noModel } from './metrics.ts';

type Current = Readonly<Record<'models' | 'backends', Readonly<Record<string, unknown>>>>;

/**
 * Removes the series of models and backends that are no longer in the plan file. Without this, each change of their names would leave series
 * until the process ends (contract.md#w2-labels). Called after a scrape, so that the last values are read once. A gauge is set again at each
 * scrape anyway.
 */
export async function removeOldSeries(registry: Registry, { models, backends }: Current): Promise<void> {
  const isOld = ({ model = noModel, backend }: Partial<Record<string, string | number>>) =>
    (model !== noModel && !Object.hasOwn(models, model)) ||
    (backend !== undefined && !Object.hasOwn(backends, backend));
  for (const metric of registry.getMetricsAsArray()) {
    if (!(metric instanceof Counter || metric instanceof Histogram)) continue;
    const { values } = await metric.get();
    for (const { labels } of values) {
      if (!isOld(labels)) continue;
      const { le: _, ...own } = labels as Record<string, string>; // of a histogram, each bucket is a value
      metric.remove(own);
    }
  }
}
