import { setTimeout as sleep } from 'node:timers/promises';
import type { RunningProcess } from '../stack/stack.ts';
import { serviceMetrics } from './service-metric.ts';

const residentMemory = async (process: RunningProcess) =>
  (await serviceMetrics(process, ['process_resident_memory_bytes']))[0] ?? 0;

/** The maximum growth of each process in bytes of resident memory. */
export function watchMemory(processes: readonly RunningProcess[]) {
  let over = false;
  const watching = processes.map(async (process) => {
    const before = await residentMemory(process);
    let most = before;
    while (!over) {
      await sleep(100);
      most = Math.max(most, await residentMemory(process).catch(() => 0)); // a process that ends with the test counts no further
    }
    return most - before;
  });
  return {
    async stop(): Promise<number[]> {
      over = true;
      return Promise.all(watching);
    },
    [Symbol.dispose]() {
      over = true;
    },
  };
}
