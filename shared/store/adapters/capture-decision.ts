type Decision<Result, Kept> = { result: Result; next?: Kept };
type Decide<Result, Kept> = (kept: Kept | undefined) => Decision<Result, Kept>;

/**
 * The same decision, which fails only when its result is asked for. What `decide` throws is the affair of whoever gave it:
 * thrown in the midst of a call, it would pass for a failure of the store.
 */
export function captureDecision<Result, Kept>(decide: Decide<Result, Kept>): Decide<() => Result, Kept> {
  return (kept) => {
    try {
      const { result, ...decision } = decide(kept);
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
