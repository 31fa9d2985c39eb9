import { h } from 'preact';
import type { OperatorBatch } from '../../routes/present-batch.ts';
import type { ShownKey } from '../../routes/present-key.ts';
import type { OperatorRequest } from '../../routes/present-request.ts';
import type { Api } from '../api/api.ts';
import { isMoving } from '../batches/batch-words.ts';
import { AskDialog } from '../page/actions.ts';

type EndableRequest = Pick<OperatorRequest, 'id' | 'account' | 'state'>;

/** A button that asks whether to end a running request. A line of a batch ends with its batch. */
export function EndButton({ request: { id, state }, ask }: { request: EndableRequest; ask: () => void }) {
  if (state === 'ended') return null;
  if (isLine(id)) return h('span', { class: 'quiet' }, 'line of a batch');
  return h('button', { type: 'button', class: 'danger', 'aria-label': `End ${id}`, onClick: ask }, 'End');
}

type AskToEndProps = { api: Api; request: EndableRequest; onEnded: () => void; close: () => void };

/** Asks, and ends it. */
export function AskToEnd({ api, request: { id, account }, onEnded, close }: AskToEndProps) {
  async function run(reason: string): Promise<void> {
    const path = `/admin/requests/${encodeURIComponent(id)}/cancel`;
    await api.call(path, { method: 'POST', body: reason === '' ? {} : { reason } });
    onEnded();
  }
  return h(
    AskDialog,
    { title: 'End this request?', action: 'End the request', isDangerous: true, account, run, close },
    h('p', null, h('code', null, id)),
    h(
      'p',
      null,
      'Its client gets 403 FORBIDDEN within two seconds; a stream ends with that error. What was delivered is charged.',
    ),
  );
}

/** The id of a line's request has its number at its end. */
function isLine(id: string): boolean {
  return /-\d+$/.test(id);
}

type EndDialogProps = { account: string; run: (reason: string) => Promise<void>; close: () => void };

export function CancelBatchDialog({ batch, ...props }: EndDialogProps & { batch: OperatorBatch }) {
  return h(
    AskDialog,
    { title: 'Cancel this batch?', action: 'Cancel the batch', isDangerous: true, ...props },
    h('p', null, batch.input_filename, ' ', h('code', null, batch.id)),
    h(
      'p',
      null,
      'Lines that have not run yet cost nothing. Lines that are done are charged, and the account keeps their results.',
    ),
  );
}

export function RevokeKeyDialog({ shown, ...props }: EndDialogProps & { shown: ShownKey }) {
  return h(
    AskDialog,
    { title: 'Revoke this key?', action: 'Revoke the key', isDangerous: true, ...props },
    h('p', null, h('strong', null, shown.name), ' ', h('code', null, shown.key)),
    h('p', null, 'Programs that use it get 401 INVALID_KEY from now on. This cannot be undone.'),
  );
}

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
