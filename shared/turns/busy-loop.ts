import { performance } from 'node:perf_hooks';

const lookEveryMs = 100;

/** Whether the event loop of this process was busy between the last two looks. */
export type BusyLoop = () => boolean;

/**
 * Looks at most ten times a second. `busyFrom`: the share of the time, 0 to 1, from which a loop that works is busy. `utilization` returns
 * the share since its last call.
 */
export function createBusyLoop(busyFrom: number, { now, utilization } = loopOfProcess()): BusyLoop {
  let lookedAt = now();
  let wasBusy = false;
  return function isBusy() {
    if (now() - lookedAt < lookEveryMs) return wasBusy;
    lookedAt = now();
    wasBusy = utilization() >= busyFrom;
    return wasBusy;
  };
}

function loopOfProcess() {
  let last = performance.eventLoopUtilization();
  return {
    now: () => performance.now(),
    utilization(): number {
      const current = performance.eventLoopUtilization();
      const { utilization } = performance.eventLoopUtilization(current, last);
      last = current;
      return utilization;
    },
  };
}
