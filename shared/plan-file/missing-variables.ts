import type { ValidationIssue } from '../validation-issues.ts';
import type { PlanFile } from './plan-file.ts';

type Environment = Readonly<Record<string, string | undefined>>;

/** Lists the variables of a worker's environment that the plan file needs and that are not set. */
export function missingVariables({ backends }: Pick<PlanFile, 'backends'>, env: Environment): ValidationIssue[] {
  return Object.entries(backends).flatMap(([name, { apiKeyEnv }]) => {
    if (apiKeyEnv === undefined || env[apiKeyEnv]) return [];
    return [{ path: apiKeyEnv, message: `is required: it holds the API key of the backend "${name}"` }];
  });
}
