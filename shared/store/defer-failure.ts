import type { Decide } from './account-changes.ts';

/**
 * The same decision, which fails only when its result is asked for. What `decide` throws is the affair of whoever gave it:
 * thrown in the midst of a call, it would pass for a failure of the store.
 */
export function deferFailure<Result>(decide: Decide<Result>): Decide<() => Result> {
  return (account) => {
    try {
      const { result, ...decision } = decide(account);
      return { ...decision, result: () => result };
    } catch (error) {
      return {
        result: () => {
          throw error;
        },
      };
    }
  };
}
