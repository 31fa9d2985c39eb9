import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import test, { type ExecutionContext } from 'ava';
import { stringify } from 'yaml';
import { type Stack, startStack } from '../stack/stack.ts';
import { linesOf, openBatchClient } from '../support/batch-client.ts';
import { chat } from '../support/chat.ts';
import { createKeyClient } from '../support/key-client.ts';
import { type Programs, providePrometheus } from '../support/prometheus/provide-prometheus.ts';
import { startPrometheus } from '../support/prometheus/start-prometheus.ts';
import { skipTest } from '../support/skip-test.ts';
import { alerts, alertsFile, alertTestsFile, dashboards } from './monitoring-files.ts';

const run = promisify(execFile);
const found = await providePrometheus().catch((error: Error) => error);

/** Declares a test that needs Prometheus. */
function prometheusTest(title: string, body: (t: ExecutionContext, programs: Programs) => Promise<void>): void {
  if (found instanceof Error) skipTest(test, { title, reason: found.message });
  else test(title, (t) => body(t, found));
}

prometheusTest(
  'promtool accepts the alerts, and each of them fires when it should and not otherwise',
  async (t, { promtool }) => {
    t.regex(
      (await run(promtool, ['check', 'rules', alertsFile])).stdout,
      new RegExp(`SUCCESS: ${alerts.length} rules found`),
    );
    t.regex((await run(promtool, ['test', 'rules', alertTestsFile])).stdout, /SUCCESS/);
  },
);

prometheusTest(
  'limits of backends are counted as they apply: for all workers, for each worker, or not at all',
  async (t, { promtool }) => {
    const folder = await mkdtemp(join(tmpdir(), 'inference-promtool-'));
    t.teardown(() => rm(folder, { recursive: true }));
    const file = join(folder, 'limits.yaml');
    const seriesOf = (name: string, values: Record<string, readonly number[]>) =>
      Object.entries(values).flatMap(([backend, ofWorkers]) =>
        ofWorkers.map((value, worker) => ({
          series: `${name}{backend="${backend}",instance="${worker}"}`,
          values: value,
        })),
      );
    const test = {
      interval: '1m',
      input_series: [
        ...seriesOf('svc_backend_limit', { fleet: [10, 10], each: [10, 10] }),
        ...seriesOf('svc_backend_share', { fleet: [6, 4] }),
        ...seriesOf('svc_backend_calls', { fleet: [3, 1], each: [8, 7], unlimited: [100, 100] }),
      ],
      promql_expr_test: [
        {
          ...{ expr: queryOf('backends', 'Use of the limit'), eval_time: '0m' },
          exp_samples: [
            { labels: '{backend="each"}', value: 0.75 },
            { labels: '{backend="fleet"}', value: 0.4 },
          ],
        },
        {
          ...{ expr: queryOf('pools', 'Free places of backends'), eval_time: '0m' },
          exp_samples: [{ labels: '{}', value: 30 - 19 }],
        },
      ],
    };
    await writeFile(file, stringify({ rule_files: [], tests: [test] }));
    t.regex((await run(promtool, ['test', 'rules', file])).stdout, /SUCCESS/);
  },
);

/** The only query of a panel. */
function queryOf(dashboard: string, panel: string): string {
  const panels = dashboards.find(({ name }) => name === dashboard)?.panels;
  return filled(panels?.find(({ title }) => title === panel)?.targets[0]?.expr ?? '');
}

prometheusTest(
  'on a stack under load, each query of each panel has data, and each alert can be evaluated',
  async (t, { prometheus }) => {
    t.timeout(180_000);
    await using stack = await startLoadedStack();
    const targets = [...stack.ingresses, ...stack.workers].map(({ operationsUrl }) => operationsUrl);
    await using running = await startPrometheus({ program: prometheus, targets, rules: alertsFile });
    const over = new AbortController();
    const load = putLoad(stack, over.signal);
    let missing = dashboards.flatMap(({ name, panels }) =>
      panels.flatMap(({ title, targets }) =>
        targets.map(({ expr }) => ({ of: `${name}: ${title}`, expr: filled(expr) })),
      ),
    );
    t.true(missing.length > 50);
    const giveUpAt = Date.now() + 120_000;
    while (missing.length > 0 && Date.now() < giveUpAt) {
      const counts = await Promise.all(missing.map(({ expr }) => running.countValues(expr)));
      missing = missing.filter((_, index) => counts[index] === 0);
      await sleep(1_000);
    }
    over.abort();
    await load;
    t.deepEqual(missing, []);
    const rules = await running.rules();
    t.deepEqual(rules.map(({ name }) => name).toSorted(), alerts.map(({ alert }) => alert).toSorted());
    for (const { name, health } of rules) t.is(health, 'ok', name);
  },
);

/** The query as Grafana sends it, with all models, pools and backends. */
function filled(query: string): string {
  return query.replaceAll('$__rate_interval', '5s').replaceAll(/\$(model|pool|backend)\b/g, '.*');
}

const [fullModel, brokenModel] = ['full-chat', 'broken-chat'];
const guests = { tier: 'guest', pool: 'default' };

async function startLoadedStack(): Promise<Stack> {
  const stack = await startStack({
    models: { [fullModel]: { ...guests, backends: ['cloud'] }, [brokenModel]: { ...guests, backends: ['onprem-b'] } },
    plans: { 'one-a-minute': { requests_per_minute: 1, model_tiers: ['guest'] } },
    backends: {
      'onprem-a': { requests_at_once: 8 },
      'onprem-b': { requests_at_once: 8 },
      cloud: { requests_at_once: 1 },
    },
    env: { QUEUE_DEPTH_MAX: '2', WEBHOOK_SECRET_KEY: 'a key of at least 32 characters for the secrets of webhooks' },
  });
  const [, second, cloud] = stack.modelServers;
  second.fail({ status: 500 }, brokenModel);
  cloud.fail({ latencyMs: 300 }, 'upstream-model');
  return stack;
}

/** Sends requests of all kinds until the end: answered, refused, limited, failed, and lines of batches. */
async function putLoad(stack: Stack, signal: AbortSignal): Promise<void> {
  const url = stack.ingresses[0]?.url ?? '';
  const keys = createKeyClient(stack);
  const several = await Promise.all(Array.from({ length: 6 }, (_, index) => keys.newKey(`load-${index}`)));
  const [key = ''] = several;
  const limited = await keys.newKey('limited');
  await keys.change('user:limited', { plan: 'one-a-minute' });
  const batches = await openBatchClient(stack, 'with-batches');
  const ask = async (options: Partial<Parameters<typeof chat>[0]>) =>
    (await chat({ url, key, question: 'repeat 20', ...options })).text();
  while (!signal.aborted) {
    const { id } = await batches.create(linesOf(3));
    await ask({});
    await ask({ stream: true });
    await ask({ fields: { guided_regex: '.*' } });
    await ask({ key: limited });
    await ask({ model: brokenModel });
    await Promise.all(several.map((each) => ask({ key: each, model: fullModel })));
    await batches.ended(id);
  }
}
