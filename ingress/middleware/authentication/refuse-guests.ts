import { ApiError } from '../../../shared/errors.ts';
import { type Stage, stateOf } from '../../request-state.ts';

/** Refuses guest keys with `FORBIDDEN`: files and batches are for accounts. */
export const refuseGuests: Stage = async function refuseGuests(ctx, next) {
  if (stateOf(ctx, 'caller').account.startsWith('device:')) {
    throw new ApiError('FORBIDDEN', 'Guest keys have no files and no batches.');
  }
  await next();
};
