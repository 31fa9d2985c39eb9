import { ApiError, temporarilyUnavailable } from '../../shared/errors.ts';
import { partitionOf } from '../../shared/redis/keys.ts';

/** Makes a call for an account, or fails at once with `SERVICE_UNAVAILABLE` while calls for its partition fail. */
export type CallPartition = <T>(account: string, call: () => Promise<T>) => Promise<T>;

/** After a call has failed, the next one is tried after this time. */
const pauseMs = 2_000;

/**
 * Stops the calls for accounts of a partition whose node does not answer, except one at a time that finds out whether it does again. Each
 * call takes a second to fail, and hundreds of lines of such an account can be in the queue of a model. They would occupy the batch lane in
 * turns. A call that fails because of the store stops them, too: they would fail like it.
 */
export function createPartitionBreaker(now: () => number = () => performance.now()): CallPartition {
  const tryAt = new Map<number, number>();

  return async function callPartition(account, call) {
    const partition = partitionOf(account);
    const at = tryAt.get(partition);
    if (at !== undefined) {
      if (now() < at) throw temporarilyUnavailable(new Error('calls for this partition fail'));
      tryAt.set(partition, now() + pauseMs);
    }
    try {
      const answer = await call();
      tryAt.delete(partition);
      return answer;
    } catch (error) {
      if (error instanceof ApiError && error.code === 'SERVICE_UNAVAILABLE') tryAt.set(partition, now() + pauseMs);
      throw error;
    }
  };
}
