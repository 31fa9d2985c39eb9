/**
 * How the backends of each model have answered the lines of one account (contract.md#u5-health-of-models). Models without failures are left
 * out.
 */
export type ModelHealth = ReadonlyMap<string, { failuresInRow: number; probedAt: number }>;

const failuresInRowMax = 8;

/** Backends that become available again are found within about this time. */
const probeEveryMs = 3_000;

/** Whether this many lines failed in a row that no more lines are spent on the model, except probes. */
export function isUnavailable(health: ModelHealth, model: string): boolean {
  return (health.get(model)?.failuresInRow ?? 0) >= failuresInRowMax;
}

/** Whether one line may find out now if an unavailable model is available again. */
export function mayProbe(health: ModelHealth, model: string, now: number): boolean {
  return isUnavailable(health, model) && now - (health.get(model)?.probedAt ?? 0) >= probeEveryMs;
}

export function withAnswer(health: ModelHealth, model: string): ModelHealth {
  if (!health.has(model)) return health;
  const others = new Map(health);
  others.delete(model);
  return others;
}

export function withFailure(health: ModelHealth, model: string): ModelHealth {
  const { failuresInRow, probedAt } = health.get(model) ?? { failuresInRow: 0, probedAt: 0 };
  return new Map(health).set(model, { failuresInRow: failuresInRow + 1, probedAt });
}

/** A line of this model is queued. Changes nothing if the model is available. */
export function withProbe(health: ModelHealth, model: string, now: number): ModelHealth {
  const known = health.get(model);
  if (known === undefined || !isUnavailable(health, model)) return health;
  return new Map(health).set(model, { ...known, probedAt: now });
}
