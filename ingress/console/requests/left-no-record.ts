import { h } from 'preact';
import type { Request } from '../../routes/present-request.ts';
import { ApiFailure } from '../api/api-failure.ts';
import type { LoadState } from '../page/use-loaded.ts';

/** Whether a request that had not ended cannot be found any more. Only one that ends while it waits leaves no record. */
export function hasLeftNoRecord({ value, error }: Pick<LoadState<Pick<Request, 'state'>>, 'value' | 'error'>): boolean {
  return value !== undefined && value.state !== 'ended' && error instanceof ApiFailure && error.status === 404;
}

/** Instead of such a request. */
export function LeftNoRecord() {
  return h('p', { role: 'status' }, 'It was ended while it waited: it has used nothing, and left no record of usage.');
}
