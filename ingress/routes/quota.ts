import { ApiError } from '../../shared/errors.ts';
import type { Stage } from '../request-state.ts';

/** `GET /billing/quota`: usage is not counted, so there is no standing to tell. */
export const retrieveQuota: Stage = async function retrieveQuota() {
  throw new ApiError('NOT_FOUND', 'There is no quota standing: this service does not count usage yet.');
};
