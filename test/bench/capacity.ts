import type { Results, Run } from './comparison/results.ts';
import { names } from './comparison/rows.ts';
import { runsOf, spreadOf } from './comparison/summarise.ts';
import { streamTokens, streamTokensPerSecond } from './loads/load.ts';

export const capacityPageFile = 'ingress/documentation/kubernetes.md';
const [begin, end] = ['<!-- capacity from npm run bench -->', '<!-- end of the capacity -->'];
const processes = ['ingress', 'worker', 'redis'] as const;
type Process = (typeof processes)[number];

export const [requestLoad, streamLoad] = ['64 clients', '256 streams'];
const [few, most] = [64, 512];

/** The share of a processor that is planned to be used: the target of the autoscaler on that page. */
export const plannedUse = 0.6;

/** What a request and a stream need of a process: microseconds of a processor, KiB of memory. NaN if it was not measured. */
export type Need = { requestMicros: number; tokenMicros: number; streamKib: number; baseMib: number };

export function needOf({ runs }: Pick<Results, 'runs'>, process: Process): Need {
  const median = (load: string, figure: (run: Run) => number | undefined) =>
    spreadOf(runsOf(runs, { row: names.one, load }).map(figure))?.median ?? Number.NaN;
  const mibOf = (streams: number) => median(`${streams} streams`, ({ memoryMiB }) => memoryMiB[process]);
  const streamKib = Math.max(0, (1_024 * (mibOf(most) - mibOf(few))) / (most - few));
  return {
    requestMicros: median(requestLoad, ({ cpuMicros }) => cpuMicros[process]),
    tokenMicros: median(streamLoad, ({ cpuMicros }) => cpuMicros[process]) / streamTokens,
    streamKib,
    baseMib: mibOf(few) - (few * streamKib) / 1_024,
  };
}

/** A cluster has at least this many. */
const clusterMastersMin = 3;

/** What this many streams at once need: processes at the planned use, at least two of each, and the memory of each of them. */
export function planFor(streams: number, needs: Readonly<Record<Process, Need>>) {
  const processorsOf = (process: Process) => (streams * streamTokensPerSecond * needs[process].tokenMicros) / 1e6;
  const countOf = (process: Process, atLeast: number) =>
    Math.max(atLeast, Math.ceil(processorsOf(process) / plannedUse));
  const memoryOf = (process: Process, count: number) =>
    needs[process].baseMib + (streams / count) * (needs[process].streamKib / 1_024);
  const [ingresses, workers, busy] = [countOf('ingress', 2), countOf('worker', 2), countOf('redis', 1)];
  const masters = busy === 1 ? 1 : Math.max(clusterMastersMin, busy);
  return {
    ingresses: { count: ingresses, mib: memoryOf('ingress', ingresses) },
    workers: { count: workers, mib: memoryOf('worker', workers) },
    redis: { processors: processorsOf('redis'), masters, mib: memoryOf('redis', 1) },
  };
}

/** Returns the page with the capacity by these results between its two marks. Throws if the page has no marks. */
export function withCapacity(page: string, results: Results): string {
  const [from, to] = [page.indexOf(begin), page.indexOf(end)];
  if (from < 0 || to < from) throw new Error('the page has no place for the capacity');
  return `${page.slice(0, from)}${begin}\n${linesOf(results).join('\n')}\n${page.slice(to)}`;
}

function linesOf(results: Results): string[] {
  const needs = Object.fromEntries(processes.map((process) => [process, needOf(results, process)])) as Record<
    Process,
    Need
  >; // with each process
  return [
    '| streams at once | ingresses | memory of each | workers | memory of each | CPU of Redis | masters of Redis | memory of Redis |',
    '|---|---|---|---|---|---|---|---|',
    ...[100, 1_000, 10_000].map((streams) => {
      const { ingresses, workers, redis } = planFor(streams, needs);
      return `| ${[
        streams.toLocaleString('en-US'),
        ingresses.count,
        mib(ingresses.mib),
        workers.count,
        mib(workers.mib),
        `${redis.processors.toFixed(2)} processors`,
        redis.masters,
        mib(redis.mib),
      ].join(' | ')} |`;
    }),
  ];
}

const mib = (value: number) => `${Math.ceil(value / 10) * 10} MiB`;
