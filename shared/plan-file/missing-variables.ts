import type { ValidationIssue } from '../validation-issues.ts';
import type { PlanFile } from './plan-file.ts';

/** Lists the variables of a worker's environment that the plan file needs and that are not set. */
export function missingVariables(
  { backends }: Pick<PlanFile, 'backends'>,
  variableOf: (name: string) => string | undefined,
): ValidationIssue[] {
  return Object.entries(backends).flatMap(([name, { apiKeyEnv }]) => {
    if (apiKeyEnv === undefined || variableOf(apiKeyEnv)) return [];
    return [{ path: apiKeyEnv, message: `is required: it holds the API key of the backend "${name}"` }];
  });
}
