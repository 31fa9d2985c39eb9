/** What lets a fifth of all requests try their backends a second time, and no more, so that retries never double an overload. */
export interface RetryBudget {
  /** A request has come. */
  earn(): void;
  /** False where nothing is left. */
  spend(): boolean;
}

const perRequest = 0.2;
/** What quiet times may save up, and a fresh process begins with. */
const savedMax = 10;

export function createRetryBudget(): RetryBudget {
  let saved = savedMax;
  return {
    earn() {
      saved = Math.min(savedMax, saved + perRequest);
    },
    spend() {
      if (saved < 1) return false;
      saved -= 1;
      return true;
    },
  };
}
