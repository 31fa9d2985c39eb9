import test from 'ava';
import { Counter, Gauge, Histogram, Registry } from 'prom-client';
import { createIngressMetrics } from '../../../ingress/metrics.ts';
import { countSettled, createRemoveOldSeries, noModel } from '../../../shared/process/metrics.ts';
import { createWorkerMetrics } from '../../../workers/metrics.ts';

type Deps = Parameters<typeof createRemoveOldSeries>[0];

/** A plan file with these models, of which only the pool matters, and backends. */
function planOf(models: Record<string, string>, backends: readonly string[]): ReturnType<Deps['currentPlanFile']> {
  return {
    models: Object.fromEntries(Object.entries(models).map(([model, pool]) => [model, { pool }])),
    backends: Object.fromEntries(backends.map((backend) => [backend, {}])),
  } as never; // further keys are not read
}

function createMetrics() {
  const registry = new Registry();
  const registers = [registry];
  return {
    registry,
    requests: new Counter({ name: 'requests', help: 'r', labelNames: ['model', 'endpoint'], registers }),
    calls: new Counter({ name: 'calls', help: 'c', labelNames: ['backend', 'model'], registers }),
    waits: new Counter({ name: 'waits', help: 'w', labelNames: ['pool'], registers }),
    times: new Histogram({ name: 'times', help: 't', labelNames: ['model'], buckets: [1, 2], registers }),
    others: new Counter({ name: 'others', help: 'o', labelNames: ['code'], registers }),
    running: new Gauge({ name: 'running', help: 'g', labelNames: ['pool'], registers }),
  };
}

const series = async (registry: Registry) => (await registry.metrics()).split('\n').filter((line) => /^\w/.test(line));

test('the series of models, pools and backends that have left are removed, and no others', async (t) => {
  const { registry, requests, calls, waits, times, others, running } = createMetrics();
  const removeOldSeries = createRemoveOldSeries({ registry, currentPlanFile: () => planOf({ stays: 'p' }, ['new']) });
  for (const model of ['stays', 'left', noModel, 'constructor']) {
    requests.inc({ model, endpoint: '/a' });
    times.observe({ model }, 1.5);
    for (const backend of ['old', 'new']) calls.inc({ backend, model });
  }
  for (const pool of ['p', 'old', noModel]) waits.inc({ pool });
  others.inc({ code: 'left' });
  running.set({ pool: 'p' }, 0);
  running.set({ pool: 'old' }, 0);
  running.set({ pool: 'old, but a job runs' }, 1);
  const before = await series(registry);
  await removeOldSeries();
  t.deepEqual(await series(registry), before, 'one more scrape has the last values');
  await removeOldSeries();
  const left = await series(registry);
  t.deepEqual(
    left.filter((line) => !line.startsWith('times')),
    [
      ...['requests{model="stays",endpoint="/a"} 1', `requests{model="${noModel}",endpoint="/a"} 1`],
      ...['calls{backend="new",model="stays"} 1', `calls{backend="new",model="${noModel}"} 1`],
      ...['waits{pool="p"} 1', `waits{pool="${noModel}"} 1`],
      ...['others{code="left"} 1', 'running{pool="p"} 0', 'running{pool="old, but a job runs"} 1'],
    ],
  );
  t.deepEqual(
    left.filter((line) => line.startsWith('times_count')),
    ['times_count{model="stays"} 1', `times_count{model="${noModel}"} 1`],
  );
  t.is(left.filter((line) => line.startsWith('times_bucket')).length, 6);
});

test('a model that leaves and comes back keeps its series', async (t) => {
  const { registry, requests } = createMetrics();
  let models = {};
  const removeOldSeries = createRemoveOldSeries({ registry, currentPlanFile: () => planOf(models, []) });
  requests.inc({ model: 'm', endpoint: '/a' });
  for (models of [{}, { m: 'p' }, {}]) await removeOldSeries();
  t.true((await series(registry)).includes('requests{model="m",endpoint="/a"} 1'));
});

type Names = Record<'model' | 'backend' | 'pool', string>;

/** Counts and observes once in each metric of both processes that has one of these labels. */
async function useAll(registry: Registry, names: Names): Promise<void> {
  for (const metric of registry.getMetricsAsArray()) {
    const { labelNames = [] } = metric as { labelNames?: (keyof Names)[] }; // not in its types
    const labels = Object.fromEntries(labelNames.map((label) => [label, names[label] ?? 'x']));
    if (!labelNames.some((label) => Object.hasOwn(names, label))) continue;
    if (metric instanceof Histogram) metric.observe(labels, 1);
    if (metric instanceof Counter) metric.inc(labels);
    if (metric instanceof Gauge) metric.set(labels, 0);
  }
}

for (const [side, create] of [
  ['ingress', createIngressMetrics],
  ['worker', createWorkerMetrics],
] as const) {
  test(`200 plan files with other models, pools and backends leave no more series than three, ${side}`, async (t) => {
    const registry = new Registry();
    const metrics = create(registry);
    const namesOf = (change: number) => ({
      ...{ model: `model-${change}`, backend: `backend-${change}`, pool: `pool-${change}` },
    });
    let names = namesOf(0);
    const currentPlanFile = () => planOf({ [names.model]: names.pool }, [names.backend]);
    const removeOldSeries = createRemoveOldSeries({ registry, currentPlanFile });
    const counts: number[] = [];
    for (let change = 0; change < 200; change++) {
      const last = names;
      names = namesOf(change);
      await useAll(registry, names);
      await useAll(registry, last); // a request of the last plan file ends late
      const tokens = { promptTokens: 1, completionTokens: 1, cachedTokens: 0 };
      countSettled(metrics, { endpoint: 'e', model: names.model, outcome: 'completed', counted: 'yes', ...tokens });
      const scraped = await series(registry);
      t.true(scraped.some((line) => line.includes(`"${names.model}"`)));
      t.true(scraped.some((line) => line.includes(`"${names.pool}"`)));
      counts.push(scraped.length);
      await removeOldSeries();
    }
    const [, , third = 0] = counts;
    t.true(Math.max(...counts) <= third + 3 * (third - (counts[1] ?? 0)), [...new Set(counts)].join());
  });
}
