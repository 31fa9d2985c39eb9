const perRequest = 0.2;
/** The most that quiet times can save, and what a new process starts with. */
const savedMax = 10;

/**
 * Limits second rounds over the backends to a fifth of all requests, so that retries never double an overload (contract.md#q3-failover).
 */
export function createRetryBudget() {
  let saved = savedMax;
  return {
    /** A request has arrived. */
    earn(): void {
      saved = Math.min(savedMax, saved + perRequest);
    },
    /** False if nothing is left. */
    spend(): boolean {
      if (saved < 1) return false;
      saved -= 1;
      return true;
    },
  };
}

export type RetryBudget = ReturnType<typeof createRetryBudget>;
