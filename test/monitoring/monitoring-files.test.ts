import { existsSync } from 'node:fs';
import test from 'ava';
import { Registry } from 'prom-client';
import { createIngressMetrics } from '../../ingress/metrics.ts';
import { openAnswerBudget } from '../../shared/process/answer-budget.ts';
import { createRegistry } from '../../shared/process/metrics.ts';
import { observeReadiness } from '../../shared/process/operations.ts';
import { observePlanFile } from '../../shared/process/watch-plan-file.ts';
import { createBoundedExport } from '../../shared/tracing/bounded-export.ts';
import { createWorkerMetrics } from '../../workers/metrics.ts';
import { recordedLog } from '../support/recorded-log.ts';
import { alerts, alertTests, dashboards } from './monitoring-files.ts';

const queries = [
  ...dashboards.flatMap(({ name, panels }) =>
    panels.flatMap(({ title, targets }) => targets.map(({ expr }) => ({ of: `${name}: ${title}`, expr }))),
  ),
  ...alerts.map(({ alert, expr }) => ({ of: alert, expr })),
];

test('there is a dashboard for the overview, pools, backends, limits and batches, each with its own id', (t) => {
  t.deepEqual(dashboards.map(({ name }) => name).toSorted(), ['backends', 'batches', 'limits', 'overview', 'pools']);
  for (const { name, uid } of dashboards) t.is(uid, `inference-${name}`);
});

test('panels have their own ids and titles, and do not cover each other', (t) => {
  for (const { name, panels } of dashboards) {
    t.is(new Set(panels.map(({ id }) => id)).size, panels.length, name);
    t.is(new Set(panels.map(({ title }) => title)).size, panels.length, name);
    const cells = panels.flatMap(({ gridPos: { x, y, w, h } }) => {
      t.true(x + w <= 24, name);
      return Array.from({ length: w * h }, (_, index) => `${x + (index % w)},${y + Math.floor(index / w)}`);
    });
    t.is(new Set(cells).size, cells.length, name);
  }
});

test('queries use only variables that their dashboard has, and each variable is used', (t) => {
  for (const { name, panels, templating } of dashboards) {
    const text = JSON.stringify(panels);
    const used = new Set([...text.matchAll(/\$\{?(\w+)\}?/g)].map(([, variable]) => variable));
    used.delete('__rate_interval');
    t.deepEqual([...used].toSorted(), templating.list.map((variable) => variable.name).toSorted(), name);
  }
});

test('each alert links to its page, and is shown by a test as it fires and as it does not', (t) => {
  t.true(alerts.length > 20);
  t.is(new Set(alerts.map(({ alert }) => alert)).size, alerts.length);
  for (const { alert, annotations } of alerts) {
    const page = alert.replaceAll(/(?<!^)(?=[A-Z])/g, '-').toLowerCase();
    t.is(annotations.runbook_url, `{{ $externalLabels.docs }}/runbooks/${page}`);
    t.true(existsSync(new URL(`../../ingress/documentation/runbooks/${page}.md`, import.meta.url)), page);
    const shown = alertTests.filter(({ alertname }) => alertname === alert).map(({ exp_alerts }) => exp_alerts.length);
    t.true(shown.includes(0) && shown.some((count) => count > 0), alert);
  }
});

test('queries use only metrics that exist, with labels that they have', async (t) => {
  const known = await knownMetrics();
  for (const { of, expr } of queries) {
    const used = [...expr.matchAll(/(svc_\w+)(?:\{([^}]*)\})?/g)];
    for (const [, name = '', selector = ''] of used) {
      const labels = known.get(name);
      t.truthy(labels, `${of}: ${name}`);
      for (const [, label = ''] of selector.matchAll(/(\w+)(?:=|!)/g))
        t.true(labels?.has(label), `${of}: ${name} ${label}`);
    }
    const groups = [...expr.matchAll(/\bby \(([^)]*)\)/g)].flatMap(([, list = '']) => list.split(/, */));
    const all = new Set(used.flatMap(([, name = '']) => [...(known.get(name) ?? [])]));
    for (const label of groups)
      if (!['', 'instance', 'job'].includes(label)) t.true(all.has(label) || used.length === 0, `${of}: by ${label}`);
  }
});

/** All metrics of both processes with the names of their labels. A histogram also has its series. */
async function knownMetrics(): Promise<Map<string, Set<string>>> {
  const [ingress, worker] = [createRegistry(), new Registry()];
  const nothing = (() => []) as never; // sources that are never read
  const ingressMetrics = createIngressMetrics(ingress);
  ingressMetrics.observe(new Proxy({}, { get: () => nothing }) as never);
  ingressMetrics.observeConnections(nothing);
  observePlanFile(ingress, nothing);
  observeReadiness(ingress, {});
  openAnswerBudget({ bytesMax: 1, registry: ingress });
  createBoundedExport({ exporter: {} as never, registry: ingress, log: recordedLog().log });
  const metrics = createWorkerMetrics(worker) as unknown as Record<string, unknown>;
  for (const [name, observe] of Object.entries(metrics))
    if (name.startsWith('observe') && typeof observe === 'function') observe(new Proxy({}, { get: () => nothing }));
  const known = new Map<string, Set<string>>();
  for (const metric of [...ingress.getMetricsAsArray(), ...worker.getMetricsAsArray()]) {
    const { name, labelNames = [] } = metric as { name: string; labelNames?: string[] }; // not in its types
    known.set(name, new Set(labelNames));
    known.set(`${name}_bucket`, new Set([...labelNames, 'le']));
  }
  return known;
}
