import type { ParsedPlanFile, PlanFile } from '../plan-file.ts';

/** The plan file that this process works with. It is replaced as a whole while the process runs (contract.md#k1-live-plan-file). */
export function createPlanFileInForce(initial: ParsedPlanFile) {
  let inForce = initial;
  const listeners: (() => void)[] = [];
  return {
    current: (): PlanFile => inForce.planFile,
    generation: (): string => inForce.generation,
    replace(next: ParsedPlanFile): void {
      inForce = next;
      for (const listener of listeners) listener();
    },
    /** Calls the listener after each replacement, in the order of the calls of this method. */
    onReplaced: (listener: () => void): void => void listeners.push(listener),
  };
}

export type PlanFileInForce = ReturnType<typeof createPlanFileInForce>;
