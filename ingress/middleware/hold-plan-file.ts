import type { PlanFile } from '../../shared/plan-file/plan-file.ts';
import type { Stage } from '../request-state.ts';

/** A request uses the same plan file from its beginning to its end, however often it is replaced meanwhile. */
export function holdPlanFile({ currentPlanFile }: { currentPlanFile: () => PlanFile }): Stage {
  return function holdPlanFile(ctx, next) {
    ctx.state.planFile = currentPlanFile();
    return next();
  };
}
