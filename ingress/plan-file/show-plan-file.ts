import type Koa from 'koa';
import { z } from 'zod';
import type { PlanFileInForce } from '../../shared/process/watch-plan-file.ts';
import { presentPlanFile } from './present-plan-file.ts';

/** The path on the operations listener. */
export const planFilePath = '/plan-file';

export const shownPlanFile = z.object({ generation: z.string(), planFile: z.record(z.string(), z.unknown()) });

/** Shows the plan file in force on the operations listener, for `npm run check-plan`. */
export function showPlanFile({ current, generation }: Pick<PlanFileInForce, 'current' | 'generation'>): Koa.Middleware {
  return async function showPlanFile(ctx, next) {
    if (ctx.path !== planFilePath || (ctx.method !== 'GET' && ctx.method !== 'HEAD')) return next();
    ctx.body = { generation: generation(), planFile: presentPlanFile(current()) } satisfies z.infer<
      typeof shownPlanFile
    >;
  };
}
