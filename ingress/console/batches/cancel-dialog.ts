import { h } from 'preact';
import { ConfirmDialog } from '../controls/confirm-dialog.ts';

export function CancelDialog({ run, close }: { run: () => Promise<void>; close: () => void }) {
  return h(
    ConfirmDialog,
    { title: 'Cancel this batch?', action: 'Cancel the batch', isDangerous: true, run, close },
    h(
      'p',
      null,
      'Lines that have not run yet end as batch_cancelled and cost nothing. Lines that are done are charged, and their results can be downloaded.',
    ),
  );
}
