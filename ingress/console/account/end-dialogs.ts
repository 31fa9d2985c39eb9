import { h } from 'preact';
import type { OperatorBatch } from '../../routes/present-batch.ts';
import type { ShownKey } from '../../routes/present-key.ts';
import { AskDialog } from './ask-dialog.ts';

type Props = { account: string; run: (reason: string) => Promise<void>; close: () => void };

export function EndRequestDialog({ id, ...props }: Props & { id: string }) {
  return h(
    AskDialog,
    { title: 'End this request?', action: 'End the request', isDangerous: true, ...props },
    h('p', null, h('code', null, id)),
    h(
      'p',
      null,
      'Its client gets 403 FORBIDDEN within two seconds; a stream ends with that error. What was delivered is charged.',
    ),
  );
}

export function CancelBatchDialog({ batch, ...props }: Props & { batch: OperatorBatch }) {
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

export function RevokeKeyDialog({ shown, ...props }: Props & { shown: ShownKey }) {
  return h(
    AskDialog,
    { title: 'Revoke this key?', action: 'Revoke the key', isDangerous: true, ...props },
    h('p', null, h('strong', null, shown.name), ' ', h('code', null, shown.key)),
    h('p', null, 'Programs that use it get 401 INVALID_KEY from now on. This cannot be undone.'),
  );
}
