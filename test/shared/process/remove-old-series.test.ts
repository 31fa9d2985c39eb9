import test from 'ava';
import { Counter, Gauge, Histogram, Registry } from 'prom-client';
import { noModel } from '../../../shared/process/metrics.ts';
import { removeOldSeries } from '../../../shared/process/remove-old-series.ts';

function createMetrics() {
  const registry = new Registry();
  const registers = [registry];
  return {
    registry,
    requests: new Counter({ name: 'requests', help: 'r', labelNames: ['model', 'endpoint'], registers }),
    calls: new Counter({ name: 'calls', help: 'c', labelNames: ['backend', 'model'], registers }),
    times: new Histogram({ name: 'times', help: 't', labelNames: ['model'], buckets: [1, 2], registers }),
    others: new Counter({ name: 'others', help: 'o', labelNames: ['code'], registers }),
    gauge: new Gauge({ name: 'gauge', help: 'g', registers }),
  };
}

const series = async (registry: Registry) => (await registry.metrics()).split('\n').filter((line) => /^\w/.test(line));

test('the series of models and backends that have left are removed, and no others', async (t) => {
  const { registry, requests, calls, times, others, gauge } = createMetrics();
  for (const model of ['stays', 'left', noModel, 'constructor']) {
    requests.inc({ model, endpoint: '/a' });
    times.observe({ model }, 1.5);
    for (const backend of ['old', 'new']) calls.inc({ backend, model });
  }
  others.inc({ code: 'left' });
  gauge.set(1);
  await removeOldSeries(registry, { models: { stays: {} }, backends: { new: {} } });
  const left = await series(registry);
  t.deepEqual(
    left.filter((line) => !line.startsWith('times')),
    [
      ...['requests{model="stays",endpoint="/a"} 1', `requests{model="${noModel}",endpoint="/a"} 1`],
      ...['calls{backend="new",model="stays"} 1', `calls{backend="new",model="${noModel}"} 1`],
      ...['others{code="left"} 1', 'gauge 1'],
    ],
  );
  t.deepEqual(
    left.filter((line) => line.startsWith('times_count')),
    ['times_count{model="stays"} 1', `times_count{model="${noModel}"} 1`],
  );
  t.is(left.filter((line) => line.startsWith('times_bucket')).length, 6);
});

test('200 plan files with other models and backends leave no more series than one', async (t) => {
  const { registry, ...metrics } = createMetrics();
  const counts = new Set<number>();
  for (let change = 0; change < 200; change++) {
    const [model, backend] = [`model-${change}`, `backend-${change}`];
    metrics.requests.inc({ model, endpoint: '/a' });
    metrics.calls.inc({ backend, model });
    metrics.times.observe({ model }, 1);
    // A request of the last plan file ends late.
    metrics.requests.inc({ model: `model-${change - 1}`, endpoint: '/a' });
    const scraped = await series(registry);
    t.true(scraped.includes(`calls{backend="${backend}",model="${model}"} 1`));
    counts.add(scraped.length);
    await removeOldSeries(registry, { models: { [model]: {} }, backends: { [backend]: {} } });
  }
  t.true(Math.max(...counts) <= 2 * Math.min(...counts), [...counts].join());
});
