import { isDeepStrictEqual } from 'node:util';
import type { PlanFile } from '../../../shared/plan-file/plan-file.ts';
import { type ExampleModels, exampleModels } from '../../documentation/example-model.ts';
import type { Documentation } from './documentation.ts';

/**
 * Returns the documentation, with examples that work with the current plan file: it is made again when the models in examples have
 * changed. The names of assets do not depend on them, so pages that are open keep working.
 */
export function followExamples({
  currentPlanFile,
  create,
}: {
  currentPlanFile: () => PlanFile;
  create: (models: ExampleModels) => Documentation;
}): Documentation {
  let seen = currentPlanFile();
  let models = exampleModels(seen);
  let documentation = create(models);

  return function currentDocumentation() {
    const planFile = currentPlanFile();
    if (planFile === seen) return documentation();
    seen = planFile;
    const next = exampleModels(planFile);
    if (isDeepStrictEqual(next, models)) return documentation();
    models = next;
    documentation = create(models);
    return documentation();
  };
}
