import { type ParsedPlanFile, parsePlanFile } from '../../shared/plan-file/plan-file.ts';
import { planText } from './plan-text.ts';

/** The small plan file of the tests, parsed after `change` was applied. Throws if it is invalid then. */
export function parsedPlan(change?: Parameters<typeof planText>[0]): ParsedPlanFile {
  const parsed = parsePlanFile(planText(change));
  if ('issues' in parsed) throw new Error(JSON.stringify(parsed.issues));
  return parsed;
}
