import type { ParsedPlanFile, PlanFile } from '../plan-file.ts';

/** The plan file that this process works with. It is replaced as a whole while the process runs (contract.md#k1-live-plan-file). */
export interface PlanFileInForce {
  current(): PlanFile;
  generation(): string;
  replace(next: ParsedPlanFile): void;
  /** Calls the listener after each replacement, in the order of the calls of this method. */
  onReplaced(listener: () => void): void;
}

export function createPlanFileInForce(initial: ParsedPlanFile): PlanFileInForce {
  let inForce = initial;
  const listeners: (() => void)[] = [];
  return {
    current: () => inForce.planFile,
    generation: () => inForce.generation,
    replace(next) {
      inForce = next;
      for (const listener of listeners) listener();
    },
    onReplaced: (listener) => void listeners.push(listener),
  };
}
