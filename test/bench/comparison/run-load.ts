import { setTimeout as sleep } from 'node:timers/promises';
import { type Gateway, questionFor } from '../gateways/gateway.ts';
import type { ModelServer } from '../gateways/places.ts';
import { generate, type Load } from '../loads/load.ts';
import { busyShare, machineTicks, usageOf } from '../processes.ts';
import type { Run } from './results.ts';

const quietMs = 1_000;
/** Of one processor. On a slow machine an idle gateway, worker and Redis take up to 0.3. With work left they take all that they get. */
const idleShareMax = 0.5;
const quietWithinMs = 60_000;

type Options = { gateway: Gateway; modelServer: ModelServer; load: Load; seconds: number };

/** Measures one gateway under one load. What it writes after the load is part of its cost. */
export async function runLoad(options: Options): Promise<Omit<Run, 'row' | 'round'>> {
  const { gateway, modelServer } = options;
  await modelServer.forgetCalls();
  try {
    return await measure(options);
  } finally {
    await untilQuiet(gateway, modelServer);
  }
}

async function measure({ gateway, modelServer, load, seconds }: Options): Promise<Omit<Run, 'row' | 'round'>> {
  const groups = { ...(await gateway.processes()), 'model server': [modelServer.pid] };
  const [before, ticksBefore] = [await usageOf(groups), await machineTicks()];
  const { kind, clients } = load;
  const figures = await generate({ kind, clients, seconds, question: questionFor(gateway, load.fields, load.models) });
  const ticksAfter = await machineTicks();
  await gateway.drained?.();
  const after = await usageOf(groups); // before the lookups of this bench, which would be charged to its Redis
  const books = await gateway.books?.();
  const used = Object.entries(after).map(([name, { cpuSeconds }]) => {
    const seconds = cpuSeconds - (before[name]?.cpuSeconds ?? 0);
    return [name, (1e6 * seconds) / figures.answered] as const;
  });
  const { 'model server': modelServerCpuMicros = 0, ...cpuMicros } = Object.fromEntries(used);
  const memory = Object.entries(after).flatMap(([name, { memoryMiB }]) =>
    name === 'model server' ? [] : [[name, memoryMiB] as const],
  );
  return {
    ...figures,
    load: load.name,
    cpuMicros,
    modelServerCpuMicros,
    generatorCpuMicros: (1e6 * figures.generatorCpuSeconds) / figures.answered,
    memoryMiB: Object.fromEntries(memory),
    machineCpu: busyShare(ticksBefore, ticksAfter),
    ...(books && { books }),
  };
}

/**
 * Some gateways still process what the generator has left behind, which would count as time and calls of the next one. Waits until, in a
 * full second, nothing was called and the gateway was almost idle.
 */
async function untilQuiet(gateway: Gateway, modelServer: ModelServer): Promise<void> {
  const giveUpAt = performance.now() + quietWithinMs;
  const used = async () => Object.values(await usageOf(await gateway.processes())).reduce(addCpu, 0);
  await modelServer.forgetCalls();
  while (performance.now() < giveUpAt) {
    const before = await used();
    await sleep(quietMs);
    const share = (1_000 * ((await used()) - before)) / quietMs;
    if ((await modelServer.forgetCalls()) === 0 && share < idleShareMax) return;
  }
  console.error(
    `a gateway is still busy ${quietWithinMs / 1_000} s after its load: the next figures are of a busy machine`,
  );
}

function addCpu(sum: number, { cpuSeconds }: { cpuSeconds: number }): number {
  return sum + cpuSeconds;
}
