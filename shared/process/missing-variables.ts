import type { ValidationIssue } from '../validation-issues.ts';
import type { PlanFile } from './plan-file.ts';

type Environment = Readonly<Record<string, string | undefined>>;

/** Lists the variables of a worker's environment that the plan file needs and that are not set. */
export function missingVariables({ backends }: Pick<PlanFile, 'backends'>, env: Environment): ValidationIssue[] {
  const all = Object.entries(backends);
  const apiKeys = all.flatMap(([name, { apiKeyEnv }]) => {
    if (apiKeyEnv === undefined || env[apiKeyEnv]) return [];
    return [{ path: apiKeyEnv, message: `is required: it holds the API key of the backend "${name}"` }];
  });
  const [salted] = all.find(([, { cacheSalt }]) => cacheSalt) ?? [];
  if (salted === undefined || env.KEY_PEPPER) return apiKeys;
  const message = `is required: the backend "${salted}" has cache_salt: true in the plan file, and the salt is made with it`;
  return [...apiKeys, { path: 'KEY_PEPPER', message }];
}
