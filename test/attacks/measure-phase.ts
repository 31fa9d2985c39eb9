import { setTimeout as sleep } from 'node:timers/promises';
import { busyShare, cpuSeconds, machineTicks, residentMiB } from '../bench/processes.ts';
import type { RunningProcess } from '../stack/stack.ts';
import { serviceMetrics } from '../support/service-metric.ts';

const sampleEveryMs = 100;

export type WatchedProcesses = {
  /** The processes whose memory and processor time are measured, by name. */
  pids: Record<string, number>;
  /** The processes whose event loops are measured, by name. */
  services: Record<string, RunningProcess>;
};

export type PhaseMeasurement = {
  /** In milliseconds of Unix time. */
  from: number;
  to: number;
  peakMiB: Record<string, number>;
  lastMiB: Record<string, number>;
  /** The share of one processor. */
  cpuShare: Record<string, number>;
  /** The share of all processors, used by everything that runs on this machine. */
  machineShare: number;
  /** The longest delay of the event loop, in milliseconds. */
  lateMs: Record<string, number>;
};

/** Measures what the processes need during this time, starting now. */
export async function measurePhase({ pids, services }: WatchedProcesses, forMs: number): Promise<PhaseMeasurement> {
  await eventLoopsLate(services); // resets the values of the time before
  const from = performance.now();
  const [cpuBefore, ticksBefore] = [await cpuSeconds(pids), await machineTicks()];
  const peakMiB: Record<string, number> = {};
  let lastMiB: Record<string, number> = {};
  while (performance.now() - from < forMs) {
    await sleep(sampleEveryMs);
    const samples = Object.entries(pids).map(
      async ([name, pid]) => [name, Math.round(await residentMiB(pid))] as const,
    );
    lastMiB = Object.fromEntries(await Promise.all(samples));
    for (const [name, mib] of Object.entries(lastMiB)) peakMiB[name] = Math.max(peakMiB[name] ?? 0, mib);
  }
  const [cpuAfter, ticksAfter, to] = [await cpuSeconds(pids), await machineTicks(), performance.now()];
  const share = (name: string) => ((cpuAfter[name] ?? 0) - (cpuBefore[name] ?? 0)) / ((to - from) / 1_000);
  const { timeOrigin } = performance;
  return {
    ...{ from: timeOrigin + from, to: timeOrigin + to, peakMiB, lastMiB },
    cpuShare: Object.fromEntries(Object.keys(pids).map((name) => [name, share(name)])),
    machineShare: busyShare(ticksBefore, ticksAfter),
    lateMs: await eventLoopsLate(services),
  };
}

/** The values since the last call. */
async function eventLoopsLate(services: WatchedProcesses['services']): Promise<Record<string, number>> {
  const late = Object.entries(services).map(async ([name, process]) => {
    const [seconds = Number.NaN] = await serviceMetrics(process, ['nodejs_eventloop_lag_max_seconds']);
    return [name, Math.round(1_000 * seconds)] as const;
  });
  return Object.fromEntries(await Promise.all(late));
}
