import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import type { Place } from '../gateways/places.ts';
import { startService } from '../gateways/start-service.ts';
import { usageOf } from '../processes.ts';

/** The costs of the service while it is idle. */
export type Idle = {
  /** By kind of process, all of a kind together: milliseconds of a processor a second. */
  cpuMs: Record<string, number>;
  /** Redis calls per second, by command, including those of scripts. */
  commands: Record<string, number>;
};

/** Measures one ingress and one worker, and the same with another worker. */
export type IdleFigures = { one: Idle; two: Idle };

/** `root`: the folder of the processes' code. Default: this project. */
type Options = Place & { name: string; seconds: number; root?: string };

/** Until partitions are distributed and the compiler has finished its work of the start. */
const settleMs = 10_000;

export async function measureIdle(options: Options): Promise<IdleFigures> {
  return { one: await measure(options, 1), two: await measure(options, 2) };
}

export function commandsPerSecond({ commands }: Idle): number {
  return sum(Object.values(commands));
}

export function cpuMsPerSecond({ cpuMs }: Idle): number {
  return sum(Object.values(cpuMs));
}

async function measure({ name, seconds, ...options }: Options, workers: number): Promise<Idle> {
  await using service = await startService({ ...options, name: `${name}-${workers}`, workers });
  const redis = new Redis(service.redis.url);
  try {
    const processes = await service.processes();
    await sleep(settleMs);
    const before = { usage: await usageOf(processes), calls: await callsOf(redis) };
    const begun = performance.now();
    await sleep(seconds * 1_000);
    const after = { usage: await usageOf(processes), calls: await callsOf(redis) };
    const passed = (performance.now() - begun) / 1_000;
    const cpuMs = Object.entries(after.usage).map(([group, { cpuSeconds }]) => {
      const used = cpuSeconds - (before.usage[group]?.cpuSeconds ?? 0);
      return [group, (used * 1_000) / passed] as const;
    });
    const commands = Object.entries(after.calls)
      .map(([command, calls]) => [command, (calls - (before.calls[command] ?? 0)) / passed] as const)
      .filter(([command, calls]) => command !== 'info' && calls > 0);
    return { cpuMs: Object.fromEntries(cpuMs), commands: Object.fromEntries(commands) };
  } finally {
    redis.disconnect();
  }
}

/** How often each command was carried out since Redis started, including those of scripts. */
export async function callsOf(redis: Redis): Promise<Record<string, number>> {
  const lines = (await redis.info('commandstats')).matchAll(/^cmdstat_([^:]+):calls=(\d+)/gm);
  return Object.fromEntries([...lines].map(([, command = '', calls]) => [command, Number(calls)]));
}

function sum(values: readonly number[]): number {
  return values.reduce((total, each) => total + each, 0);
}
