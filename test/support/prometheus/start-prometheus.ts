import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { stringify } from 'yaml';
import { z } from 'zod';
import { freePort } from '../../stack/free-port.ts';

const rangeSchema = z.object({
  data: z.object({ result: z.array(z.object({ values: z.array(z.tuple([z.number(), z.string()])) })) }),
});
const rulesSchema = z.object({
  data: z.object({
    groups: z.array(z.object({ rules: z.array(z.object({ name: z.string(), health: z.string() })) })),
  }),
});
const errorSchema = z.object({ error: z.string() });

export interface RunningPrometheus extends AsyncDisposable {
  /** How many values, except NaN, this query has had since the start. Throws if Prometheus refuses it. */
  countValues(query: string): Promise<number>;
  /** The rules that it has evaluated, and whether it could. */
  rules(): Promise<{ name: string; health: string }[]>;
}

type Options = { program: string; targets: readonly string[]; rules: string };

/** Starts a Prometheus that scrapes these listeners each second, with the data in a temporary folder. */
export async function startPrometheus({ program, targets, rules }: Options): Promise<RunningPrometheus> {
  const folder = await mkdtemp(join(tmpdir(), 'inference-prometheus-'));
  const address = `127.0.0.1:${await freePort()}`;
  const config = {
    global: {
      ...{ scrape_interval: '1s', evaluation_interval: '1s' },
      external_labels: { docs: 'https://inference.example.com/docs' },
    },
    rule_files: [rules],
    scrape_configs: [{ job_name: 'inference', static_configs: [{ targets: targets.map((url) => new URL(url).host) }] }],
  };
  await writeFile(join(folder, 'prometheus.yml'), stringify(config));
  const child = spawn(
    program,
    [
      ...[`--config.file=${join(folder, 'prometheus.yml')}`, `--storage.tsdb.path=${join(folder, 'data')}`],
      `--web.listen-address=${address}`,
    ],
    { stdio: ['ignore', 'ignore', 'pipe'] },
  );
  let errors = '';
  child.stderr.on('data', (bytes: Buffer) => {
    errors = (errors + bytes.toString()).slice(-10_000);
  });
  const exited = once(child, 'exit');
  const startedAt = Date.now() / 1_000;

  async function ask(path: string): Promise<unknown> {
    const answer = await fetch(`http://${address}${path}`);
    const body: unknown = await answer.json();
    if (!answer.ok) throw new Error(errorSchema.parse(body).error);
    return body;
  }

  const isReady = () =>
    fetch(`http://${address}/-/ready`).then(
      ({ ok }) => ok,
      () => false,
    );
  while (!(await isReady())) {
    if (child.exitCode !== null) throw new Error(`Prometheus has ended: ${errors}`);
    await sleep(50);
  }
  return {
    async countValues(query) {
      const search = new URLSearchParams({
        query,
        start: String(startedAt),
        end: String(Date.now() / 1_000),
        step: '1',
      });
      const { data } = rangeSchema.parse(await ask(`/api/v1/query_range?${search}`));
      return data.result.flatMap(({ values }) => values).filter(([, value]) => value !== 'NaN').length;
    },
    rules: async () => rulesSchema.parse(await ask('/api/v1/rules')).data.groups.flatMap(({ rules }) => rules),
    async [Symbol.asyncDispose]() {
      child.kill('SIGTERM');
      await exited;
      await rm(folder, { recursive: true, force: true });
    },
  };
}
