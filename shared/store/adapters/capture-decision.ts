type Decision<Result, Kept> = { result: Result; next?: Kept };
type Decide<Result, Kept> = (kept: Kept | undefined) => Decision<Result, Kept>;

/**
 * Returns the same decision, but throws an error of `decide` only when its result is read. Such an error is the caller's: thrown in the
 * middle of a call, it would be taken for a failure of the store.
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
