/**
 * Limits second rounds over the backends to a fifth of all requests, so that retries never double an overload (contract.md#q3-failover).
 */
export interface RetryBudget {
  /** A request has arrived. */
  earn(): void;
  /** False if nothing is left. */
  spend(): boolean;
}

const perRequest = 0.2;
/** The most that quiet times can save, and what a new process starts with. */
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
