import type { Run } from '../bench/comparison/results.ts';

/** One run of a row under load, as the benchmark stores it. */
export function sampleRun(given: Partial<Run> & Pick<Run, 'row' | 'load' | 'round'>): Run {
  return {
    ...{ answered: 1_000, failed: 0, seconds: 1, p50Ms: 1, p99Ms: 2, generatorCpuSeconds: 0.1 },
    ...{ cpuMicros: { gateway: 100 }, modelServerCpuMicros: 10, generatorCpuMicros: 10 },
    ...{ memoryMiB: { gateway: 50 }, machineCpu: 0.5 },
    ...given,
  };
}
