import { readFileSync } from 'node:fs';
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import { z } from 'zod';
import { endpoints } from '../endpoints/endpoints.ts';
import { ApiError } from '../errors.ts';
import { type PlanFile, poolsOf } from '../plan-file/plan-file.ts';

/** The label `model` of a request that was refused before its model was known. */
export const noModel = 'none';

/** The library's own 10 ms keep an idle process awake: they use 6 ms of a processor per second, and this value 0.6 ms. */
const loopSampleMs = 100;

/** Creates the registry of one process's metrics, including Node's own. A label never holds a key, an account or a request id. */
export function createRegistry(): Registry {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: loopSampleMs });
  new Gauge({
    name: 'svc_build_info',
    help: 'The version of the service and of Node, as labels; always 1',
    labelNames: ['version', 'node'],
    registers: [registry],
  }).set({ version: serviceVersion(), node: process.versions.node }, 1);
  return registry;
}

const packageSchema = z.object({ version: z.string() });

/** The version in `package.json`. */
export function serviceVersion(): string {
  const file = new URL('../../package.json', import.meta.url);
  return packageSchema.parse(JSON.parse(readFileSync(file, 'utf8'))).version;
}

/** Buckets in seconds, from a millisecond to the longest life of a request. */
export const durationBuckets = [
  0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600,
];

/** Without this, a series begins with its first event, and rates and alerts miss that event. */
export function startAtZero<Label extends string>(
  counter: Counter<Label>,
  labels: readonly Partial<Record<Label, string>>[],
): Counter<Label> {
  for (const each of labels) counter.inc(each, 0);
  return counter;
}

const settleFailureReasons = ['refused', 'lost', 'error'];
const notKeptReasons = ['stream', 'size', 'no_room'];

export type LimitMetrics = ReturnType<typeof createLimitMetrics>;

/** Metrics of both sides: usually the worker ends a request, and the ingress ends one whose worker died. */
export function createLimitMetrics(registry: Registry) {
  const registers = [registry];
  return {
    settled: new Counter({
      name: 'svc_requests_settled_total',
      help: 'Requests that were ended and charged, by outcome, and whether the backend reported their tokens',
      labelNames: ['endpoint', 'outcome', 'counted'],
      registers,
    }),
    tokens: new Counter({
      name: 'svc_tokens_total',
      help: 'Tokens of requests that were ended and charged, by kind: prompt, cached (prompt tokens that the backend had cached) or completion',
      labelNames: ['model', 'endpoint', 'kind'],
      registers,
    }),
    settleFailures: startAtZero(
      new Counter({
        name: 'svc_settle_failures_total',
        help: 'Requests that were not settled: refused (another run had begun, or they had ended), lost (their lease had expired), or error',
        labelNames: ['endpoint', 'reason'],
        registers,
      }),
      endpoints.flatMap(({ path: endpoint }) => settleFailureReasons.map((reason) => ({ endpoint, reason }))),
    ),
    answersNotKept: startAtZero(
      new Counter({
        name: 'svc_answers_not_kept_total',
        help: 'Requests with an idempotency key whose answer is not kept: stream, size (it was longer than what was reserved) or no_room (of all accounts together)',
        labelNames: ['endpoint', 'reason'],
        registers,
      }),
      endpoints.flatMap(({ path: endpoint }) => notKeptReasons.map((reason) => ({ endpoint, reason }))),
    ),
    refusedFields: new Counter({
      name: 'svc_refused_fields_total',
      help: 'Requests and lines of batches refused for a field, tool or address that the plan file does not allow, by field',
      labelNames: ['endpoint', 'field'],
      registers,
    }),
  };
}

type Report = Readonly<
  Record<'endpoint' | 'model' | 'outcome' | 'counted', string> &
    Record<'promptTokens' | 'completionTokens' | 'cachedTokens', number>
>;

/** Counts a request that was ended and charged. */
export function countSettled({ settled, tokens }: Pick<LimitMetrics, 'settled' | 'tokens'>, report: Report): void {
  const { endpoint, model, outcome, counted } = report;
  settled.inc({ endpoint, outcome, counted });
  tokens.inc({ model, endpoint, kind: 'prompt' }, report.promptTokens);
  tokens.inc({ model, endpoint, kind: 'cached' }, report.cachedTokens);
  tokens.inc({ model, endpoint, kind: 'completion' }, report.completionTokens);
}

type RefusedFields = { refusedFields: Counter<'endpoint' | 'field'> };

/** Counts a refusal once for each field that the plan file does not allow. Ignores any other error. */
export function countRefusedFields({ refusedFields }: RefusedFields, endpoint: string, error: unknown): void {
  if (!(error instanceof ApiError)) return;
  const fields = error.issues.flatMap(({ refused }) => refused ?? []);
  for (const field of new Set(fields)) refusedFields.inc({ endpoint, field });
}

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

type GaugeOptions = {
  name: string;
  help: string;
  /** Called at each scrape. Undefined while the value is unknown. */
  read: () => number | undefined | Promise<number | undefined>;
};

/** Registers a gauge that is read at each scrape, and left out while its value is unknown. */
export function observeGauge(registry: Registry, { name, help, read }: GaugeOptions): void {
  new Gauge({
    name,
    help,
    registers: [registry],
    async collect() {
      const value = await read();
      this.remove(); // a gauge without a value reports 0
      if (value !== undefined) this.set(value);
    },
  });
}
