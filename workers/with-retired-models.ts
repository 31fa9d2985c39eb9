import type { PlanFile } from '../shared/plan-file/plan-file.ts';

/**
 * Returns the plan file with the models that this worker has served and would serve no longer: those that have gone, and those that have
 * moved to a pool of other workers. Their backends stay, too.
 */
export function withRetiredModels(
  next: PlanFile,
  earlier: Pick<PlanFile, 'models' | 'backends'>,
  { servesEarlier, servesNext }: Record<'servesEarlier' | 'servesNext', (pool: string) => boolean>,
): PlanFile {
  const retired = Object.entries(earlier.models).flatMap(([name, was]) => {
    const model = next.models[name];
    if (!servesEarlier(was.pool) || (model !== undefined && servesNext(model.pool))) return [];
    return [[name, model === undefined ? was : { ...model, pool: was.pool }] as const];
  });
  if (retired.length === 0) return next;
  const kept = retired.flatMap(([, { backends }]) => backends).filter((name) => next.backends[name] === undefined);
  const backends = kept.flatMap((name) => {
    const backend = earlier.backends[name];
    return backend === undefined ? [] : [[name, backend] as const];
  });
  return {
    ...next,
    models: named([...Object.entries(next.models), ...retired]),
    backends: named([...Object.entries(next.backends), ...backends]),
  };
}

/** Without a prototype, as in every plan file. */
function named<Value>(entries: readonly (readonly [string, Value])[]): Readonly<Record<string, Value>> {
  return Object.freeze(Object.assign(Object.create(null), Object.fromEntries(entries)));
}
