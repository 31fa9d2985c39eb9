import { ApiError } from '../../../shared/errors.ts';
import { filesOf } from '../../../shared/store/records/key.ts';
import { type Stage, stateOf } from '../../request-state.ts';

/**
 * Refuses keys that may use no files and no batches with `FORBIDDEN`: guest keys, and keys that say so (contract.md#ho7-files-of-a-key).
 */
export const refuseWithoutFiles: Stage = async function refuseWithoutFiles(ctx, next) {
  const { account, keyScope } = stateOf(ctx, 'caller');
  if (account.startsWith('device:')) throw new ApiError('FORBIDDEN', 'Guest keys have no files and no batches.');
  if (keyScope !== undefined && filesOf(keyScope) === 'none') {
    throw new ApiError('FORBIDDEN', 'This API key may use no files and no batches.');
  }
  await next();
};
