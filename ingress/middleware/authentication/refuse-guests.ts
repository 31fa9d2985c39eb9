import { ApiError } from '../../../shared/errors.ts';
import { type Stage, stateOf } from '../../request-state.ts';

/** Files and batches are for accounts: `FORBIDDEN` for the key of a device. */
export const refuseGuests: Stage = async function refuseGuests(ctx, next) {
  if (stateOf(ctx, 'caller').account.startsWith('device:')) {
    throw new ApiError('FORBIDDEN', 'Guest keys have no files and no batches.');
  }
  await next();
};
