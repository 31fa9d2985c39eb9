import { isDeepStrictEqual } from 'node:util';
import type { PlanFile } from '../../shared/plan-file/plan-file.ts';
import type { Documentation } from './documentation.ts';
import { type ExampleModels, exampleModels } from './example-model.ts';

/**
 * Returns the documentation, with examples that work with the current plan file: its pages are rendered again when the models in examples
 * have changed.
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

  function current(): Documentation {
    const planFile = currentPlanFile();
    if (planFile === seen) return documentation;
    seen = planFile;
    const next = exampleModels(planFile);
    if (isDeepStrictEqual(next, models)) return documentation;
    models = next;
    documentation = create(models);
    return documentation;
  }

  const { assets, missing } = documentation;
  return { assets, missing, page: (name) => current().page(name) };
}
