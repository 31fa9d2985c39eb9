import { z } from 'zod';
import { planFileSchema } from '../../shared/plan-file/plan-file-schema.ts';

/**
 * The shape of the plan file as JSON Schema, for editors (contract.md#k4-schema-and-check). Draft 7, which the YAML language servers of
 * editors support best. Rules across sections are not in it.
 */
export function planFileJsonSchema(): object {
  const schema = z.toJSONSchema(planFileSchema, { io: 'input', target: 'draft-7', unrepresentable: 'any' });
  return { title: 'Plan file', ...schema };
}
