import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { availableParallelism, cpus, totalmem } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { capacityPageFile, withCapacity } from '../capacity.ts';
import { chartsOf } from '../charts/charts.ts';
import { drawChart } from '../charts/draw-chart.ts';
import { withResults } from './documents.ts';
import { type MeasurementOrigin, type Part, type Results, resultsSchema } from './results.ts';

const root = new URL('../../..', import.meta.url);
const pages = {
  'ingress/documentation/benchmarks.md': withResults,
  [capacityPageFile]: withCapacity,
};

/**
 * `intoPage`: also write the figures into the page about benchmarks, which links to the charts in the repository, and the capacity by
 * them into the page about Kubernetes.
 */
export type KeepOptions = { folder: string; intoPage: boolean };

type Found = { part: Part; found: Partial<Omit<Results, 'taken'>> };

/** Writes the results of a part into `results.json` of the folder, keeps the latest results of the other parts, and draws the charts. */
export async function keepResults({ folder, intoPage }: KeepOptions, { part, found }: Found): Promise<Results> {
  const file = join(folder, 'results.json');
  const before = await readFile(file, 'utf8').catch(() => undefined);
  const kept = resultsSchema.safeParse(before === undefined ? undefined : JSON.parse(before));
  const taken = { ...kept.data?.taken, [part]: here() };
  const results = { ...nothing(), ...kept.data, ...rounded(found), taken };
  await mkdir(folder, { recursive: true });
  await writeFile(file, `${JSON.stringify(results, null, 1)}\n`);
  for (const [name, chart] of Object.entries(chartsOf(results))) await writeFile(join(folder, name), drawChart(chart));
  if (!intoPage) return results;
  for (const [name, withThem] of Object.entries(pages)) {
    const page = fileURLToPath(new URL(name, root));
    await writeFile(page, withThem(await readFile(page, 'utf8'), results));
  }
  return results;
}

/** Rounds each number to five digits, as it is printed and drawn. */
function rounded(found: Found['found']): Found['found'] {
  const short = (_name: string, value: unknown) =>
    typeof value === 'number' && !Number.isInteger(value) ? Number(value.toPrecision(5)) : value;
  return JSON.parse(JSON.stringify(found, short)) as Found['found']; // the same, except for digits
}

function nothing() {
  return { rounds: 0, seconds: 0, idleCpu: 0, warnings: [], rows: [], runs: [], warmUps: [], truth: [] };
}

function here(): MeasurementOrigin {
  return {
    machine: {
      processors: availableParallelism(),
      model: cpus()[0]?.model.trim() ?? '',
      memoryGiB: Math.round(totalmem() / 2 ** 30),
      node: process.versions.node,
    },
    date: new Date().toISOString().slice(0, 10),
  };
}
