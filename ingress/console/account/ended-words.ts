import type { OperatorBatch } from '../../routes/present-batch.ts';
import type { OperatorRequest } from '../../routes/present-request.ts';
import { isMoving } from '../batches/batch-words.ts';

/** What an operator has just ended on the page of an account. */
export type EndTarget = { kind: 'request' | 'batch' | 'key'; id: string; name: string };

type ListedWork = {
  requests: readonly Pick<OperatorRequest, 'id' | 'state'>[];
  batches: readonly Pick<OperatorBatch, 'id' | 'status'>[];
};

/** How it is now, in words. A request and a batch end a moment later; one that is not listed any more has ended. */
export function endedWords({ kind, id, name }: EndTarget, { requests, batches }: ListedWork): string {
  if (kind === 'key') return `The key ${name} was revoked.`;
  if (kind === 'request') {
    const isRunning = requests.some((request) => request.id === id && request.state !== 'ended');
    return isRunning ? `The request ${name} ends within two seconds.` : `The request ${name} has ended.`;
  }
  const isRunning = batches.some((batch) => batch.id === id && isMoving(batch));
  return isRunning ? `The batch ${name} is being cancelled.` : `The batch ${name} has ended.`;
}
