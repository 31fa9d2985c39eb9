import { readdir, readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { median } from './measure.ts';

/** Of all processors together, in ticks (proc(5)). */
export type Ticks = { all: number; idle: number };

/** A tick of the counters in `/proc`, on every current Linux (`getconf CLK_TCK`). */
const ticksPerSecond = 100;
const bytesPerPage = 4_096;
const bytesPerMiB = 1_048_576;
const sampleEveryMs = 1_000;

export async function machineTicks(): Promise<Ticks> {
  const [line = ''] = (await readFile('/proc/stat', 'utf8')).split('\n');
  const ticks = line.trim().split(/\s+/).slice(1, 9).map(Number);
  return { all: ticks.reduce((sum, each) => sum + each, 0), idle: (ticks[3] ?? 0) + (ticks[4] ?? 0) };
}

/** The share of the complete machine's time that was not idle between the two. */
export function busyShare(before: Ticks, after: Ticks): number {
  return 1 - (after.idle - before.idle) / (after.all - before.all);
}

/**
 * Processor time that each process has used so far, in seconds, in user and system mode, including children that have ended: Redis
 * rewrites its append-only file in one.
 */
export async function cpuSeconds(pids: Record<string, number>): Promise<Record<string, number>> {
  return mapValues(pids, cpuSecondsOf);
}

/** The processor time of each group of processes, in seconds, and their present memory, in MiB. */
export async function usageOf(groups: Record<string, readonly number[]>): Promise<Record<string, Usage>> {
  return mapValues(groups, async (pids) => ({
    cpuSeconds: sum(await Promise.all(pids.map(cpuSecondsOf))),
    memoryMiB: sum(await Promise.all(pids.map(residentMiB))),
  }));
}

export type Usage = { cpuSeconds: number; memoryMiB: number };

/** A process and its descendants that still run. */
export async function processTree(pid: number): Promise<number[]> {
  const threads = await readdir(`/proc/${pid}/task`).catch(() => []);
  const children = threads.map(async (thread) => {
    const text = await readFile(`/proc/${pid}/task/${thread}/children`, 'utf8').catch(() => '');
    return text.split(' ').filter(Boolean).map(Number);
  });
  const trees = (await Promise.all(children)).flat().map(processTree);
  return [pid, ...(await Promise.all(trees)).flat()];
}

async function cpuSecondsOf(pid: number): Promise<number> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8');
  // The name before it, in brackets, may contain spaces: from the state on, utime, stime, cutime and cstime (proc(5)).
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return sum(fields.slice(11, 15).map(Number)) / ticksPerSecond;
}

/** Medians of a process's memory in the first and in the last quarter of a time, and the slope over the last three. */
export type Memory = { firstMiB: number; lastMiB: number; mostMiB: number; mibPerMinute: number };

/** Samples the memory of these processes once a second until `stop` is called. */
export function watchMemory(pids: Record<string, number>) {
  const stopping = new AbortController();
  const samples: Record<string, number>[] = [];
  const watching = (async () => {
    while (!stopping.signal.aborted) {
      samples.push(await mapValues(pids, residentMiB));
      await sleep(sampleEveryMs, undefined, { signal: stopping.signal }).catch(() => {});
    }
  })();
  return {
    async stop(): Promise<Record<string, Memory>> {
      stopping.abort();
      await watching;
      return mapValues(pids, async (_pid, name) => memoryOf(samples.map((sample) => sample[name] ?? Number.NaN)));
    },
  };
}

export async function residentMiB(pid: number): Promise<number> {
  const [, pages] = (await readFile(`/proc/${pid}/statm`, 'utf8')).split(' ');
  return (Number(pages) * bytesPerPage) / bytesPerMiB;
}

function memoryOf(samples: readonly number[]): Memory {
  const quarter = Math.max(1, Math.floor(samples.length / 4));
  return {
    firstMiB: median(samples.slice(0, quarter)),
    lastMiB: median(samples.slice(-quarter)),
    mostMiB: Math.max(...samples),
    mibPerMinute: (slopeOf(samples.slice(quarter)) * 60_000) / sampleEveryMs,
  };
}

/** The slope of the best straight line, per sample. */
function slopeOf(samples: readonly number[]): number {
  const middle = (samples.length - 1) / 2;
  const mean = sum(samples) / samples.length;
  let [above, below] = [0, 0];
  for (const [at, each] of samples.entries()) {
    above += (at - middle) * (each - mean);
    below += (at - middle) ** 2;
  }
  return above / below;
}

function sum(values: readonly number[]): number {
  return values.reduce((total, each) => total + each, 0);
}

async function mapValues<From, To>(
  record: Record<string, From>,
  change: (value: From, name: string) => Promise<To>,
): Promise<Record<string, To>> {
  const pairs = Object.entries(record).map(async ([name, value]) => [name, await change(value, name)] as const);
  return Object.fromEntries(await Promise.all(pairs));
}
