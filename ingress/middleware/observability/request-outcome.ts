import { errorStatus } from '../../../shared/errors.ts';
import type { RequestState } from '../../request-state.ts';

/**
 * How an inference request ended, as its client saw it. `repeated`: it got the answer of an earlier request with its idempotency key.
 * `refused`: it got an error of its own making (4xx), and `failed`: another error, as a status or at the end of a stream. `disconnected`:
 * the client left first.
 */
export type RequestOutcome = 'completed' | 'repeated' | 'refused' | 'failed' | 'disconnected';

export function outcomeOf(
  { errorCode, repeated }: Pick<RequestState, 'errorCode' | 'repeated'>,
  isComplete: boolean,
): RequestOutcome {
  if (errorCode !== undefined) return errorStatus(errorCode) >= 500 ? 'failed' : 'refused';
  if (!isComplete) return 'disconnected';
  return repeated === undefined ? 'completed' : 'repeated';
}
