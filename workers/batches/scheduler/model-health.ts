/** Whether a model's backends answer the lines of one account, as far as those have shown it. */
export interface ModelHealth {
  answered(model: string): void;
  failed(model: string): void;
  /** So many lines in a row have failed that no new ones are to be spent on finding out. */
  isAway(model: string): boolean;
  /** Whether one line may find out now whether a model that is away has returned; to be asked by whoever then tries one. */
  mayProbe(model: string, now: number): boolean;
  probed(model: string, now: number): void;
}

const failuresInRowMax = 8;
/** Backends that return are found again within about this time. */
const probeEveryMs = 3_000;

export function createModelHealth(): ModelHealth {
  const models = new Map<string, { failuresInRow: number; probedAt: number }>();
  const isAway = (model: string) => (models.get(model)?.failuresInRow ?? 0) >= failuresInRowMax;
  return {
    answered(model) {
      models.delete(model);
    },
    failed(model) {
      const { failuresInRow, probedAt } = models.get(model) ?? { failuresInRow: 0, probedAt: 0 };
      models.set(model, { failuresInRow: failuresInRow + 1, probedAt });
    },
    isAway,
    mayProbe: (model, now) => isAway(model) && now - (models.get(model)?.probedAt ?? 0) >= probeEveryMs,
    probed(model, now) {
      const known = models.get(model);
      if (known !== undefined) models.set(model, { ...known, probedAt: now });
    },
  };
}
