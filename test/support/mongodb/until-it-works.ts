import { setTimeout as sleep } from 'node:timers/promises';
import { ApiError } from '../../../shared/errors.ts';

/**
 * Repeats a call until it does not fail with `SERVICE_UNAVAILABLE`, as a client would, until the time limit of the test. On a busy machine,
 * a first connection can take seconds.
 */
export async function untilItWorks(call: () => Promise<unknown>): Promise<void> {
  for (;;) {
    try {
      await call();
      return;
    } catch (error) {
      if (!(error instanceof ApiError) || error.code !== 'SERVICE_UNAVAILABLE') throw error;
    }
    await sleep(20);
  }
}
