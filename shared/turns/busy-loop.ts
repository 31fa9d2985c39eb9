import { performance } from 'node:perf_hooks';

const lookEveryMs = 100;
const busyFrom = 0.5;

/** Whether the event loop of this process was working for at least half of the time between the last two looks. */
export type BusyLoop = () => boolean;

/** Looks at most ten times a second. `utilization`: the share of the time since its last call in which the loop worked, 0 to 1. */
export function createBusyLoop({ now, utilization } = loopOfProcess()): BusyLoop {
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
