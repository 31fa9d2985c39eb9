import { endpointNames } from '../../shared/endpoints/routes.ts';
import type { PlanFile } from '../../shared/plan-file/plan-file.ts';

type Plans = Pick<PlanFile, 'models' | 'plans' | 'defaultPlan'>;

/** The models in examples, by the name of the endpoint. */
export type ExampleModels = Readonly<Record<string, string>>;

/** Returns for each endpoint the first model with it that a new account may use, because readers run the examples unchanged. */
export function exampleModels({ models, plans, defaultPlan }: Plans): ExampleModels {
  const tiers = plans[defaultPlan]?.modelTiers ?? [];
  return Object.fromEntries(
    endpointNames.map((endpoint) => {
      const offering = Object.entries(models).filter(([, model]) => model.endpoints.includes(endpoint));
      const [name] = offering.find(([, { tier }]) => tiers.includes(tier)) ?? offering[0] ?? [`${endpoint}-model`];
      return [endpoint, name];
    }),
  );
}
