import { parsePlanFile } from '../../shared/plan-file/plan-file.ts';
import { planText } from '../support/plan-text.ts';

/** The small plan file of the tests. */
export function fuzzPlan() {
  const parsed = parsePlanFile(planText());
  if ('issues' in parsed) throw new Error('the plan file of the tests is invalid');
  return parsed.planFile;
}
