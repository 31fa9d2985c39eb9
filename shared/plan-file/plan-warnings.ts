import type { ValidationIssue } from '../validation-issues.ts';
import type { PlanFile } from './plan-file.ts';

/** A plan file of the longest length has thousands of tiers. */
const warningsMax = 100;

/**
 * What a plan file may have, but is probably a mistake: tiers without a plan or a model, and variables of API keys that are not set.
 * `variableOf`: undefined for a process that calls no backends.
 */
export function planWarnings(
  { plans, models, backends }: Pick<PlanFile, 'plans' | 'models' | 'backends'>,
  variableOf?: (name: string) => string | undefined,
): string[] {
  const missing = variableOf === undefined ? [] : missingVariables({ backends }, variableOf);
  const all = [...unusedTiers({ plans, models }), ...missing];
  return all.slice(0, warningsMax).map(({ path, message }) => `${path}: ${message}`);
}

function unusedTiers({ plans, models }: Pick<PlanFile, 'plans' | 'models'>): ValidationIssue[] {
  const planTiers = new Set(Object.values(plans).flatMap(({ modelTiers }) => modelTiers));
  const modelTiers = new Set(Object.values(models).map(({ tier }) => tier));
  const ofModels = Object.entries(models).filter(([, { tier }]) => !planTiers.has(tier));
  return [
    ...ofModels.map(([name, { tier }]) => ({
      path: `models.${name}.tier`,
      message: `no plan has the tier "${tier}", so no one can use this model`,
    })),
    ...Object.entries(plans).flatMap(([name, plan]) => {
      const unused = [...new Set(plan.modelTiers)].filter((tier) => !modelTiers.has(tier));
      return unused.map((tier) => ({ path: `plans.${name}.model_tiers`, message: `no model has the tier "${tier}"` }));
    }),
  ];
}

/** Lists the variables of a worker's environment that the plan file names and that are not set. */
export function missingVariables(
  { backends }: Pick<PlanFile, 'backends'>,
  variableOf: (name: string) => string | undefined,
): ValidationIssue[] {
  return Object.entries(backends).flatMap(([name, { apiKeyEnv }]) => {
    if (apiKeyEnv === undefined || variableOf(apiKeyEnv)) return [];
    const message = `the variable ${apiKeyEnv} is not set; a worker without it does not call this backend`;
    return [{ path: `backends.${name}.api_key_env`, message }];
  });
}
