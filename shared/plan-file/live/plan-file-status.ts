import { Gauge, type Registry } from 'prom-client';

/**
 * What a process shows of its plan file. `next`: a later one that an ingress has read, and the pools that have no worker with it yet.
 * `issues`: why the text that was read last is not used; empty if it is.
 */
export type PlanFileStatus = {
  generation: string;
  next?: { generation: string; waitsFor: readonly string[] } | undefined;
  issues: readonly string[];
};

/** Registers the gauges of the plan file. */
export function observePlanFile(registry: Registry, status: () => PlanFileStatus): void {
  new Gauge({
    name: 'svc_plan_file_generation',
    help: 'Generation of the plan file that this process works with, as a label; always 1',
    labelNames: ['generation'],
    registers: [registry],
    collect() {
      this.reset();
      this.set({ generation: status().generation }, 1);
    },
  });
  new Gauge({
    name: 'svc_plan_file_issues',
    help: 'Issues of the plan file that was read last, and is not used because of them; 0 if it is valid',
    registers: [registry],
    collect() {
      this.set(status().issues.length);
    },
  });
}
