import type Koa from 'koa';
import { z } from 'zod';
import { namedSections, type PlanFile } from '../../shared/plan-file/plan-file.ts';
import { planFileSchema } from '../../shared/plan-file/plan-file-schema.ts';
import type { PlanFileInForce } from '../../shared/process/watch-plan-file.ts';

/** A plan file with the names of the file and all defaults. Passwords in addresses of backends are replaced by asterisks. */
export type ShownPlanFile = Readonly<Record<string, unknown>>;

export function presentPlanFile(planFile: PlanFile): ShownPlanFile {
  const backends = Object.entries(planFile.backends).map(([name, { url, ...others }]) => {
    return [name, { url: withoutPassword(url), ...others }] as const;
  });
  return snakeCase({ ...planFile, backends: Object.fromEntries(backends) }) as ShownPlanFile; // the shape is that of the plan file
}

function snakeCase(value: unknown, keysAreNames = false): unknown {
  if (Array.isArray(value)) return value.map((item) => snakeCase(item));
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).map(([key, item]) => {
    const name = keysAreNames ? key : key.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
    return [name, snakeCase(item, namedSections.has(key) && !keysAreNames)] as const;
  });
  return Object.fromEntries(entries);
}

function withoutPassword(address: string): string {
  const url = new URL(address);
  if (url.username === '' && url.password === '') return address;
  url.username = '****';
  url.password = '';
  return url.href;
}

/**
 * The shape of the plan file as JSON Schema, for editors (contract.md#k4-schema-and-check). Draft 7, which the YAML language servers of
 * editors support best. Rules across sections are not in it.
 */
export function planFileJsonSchema(): object {
  const schema = z.toJSONSchema(planFileSchema, { io: 'input', target: 'draft-7', unrepresentable: 'any' });
  return { title: 'Plan file', ...schema };
}

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
