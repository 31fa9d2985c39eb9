import { h } from 'preact';
import type { DeveloperKey } from '../../api/response-schemas.ts';
import { ConfirmDialog } from '../page/confirm-dialog.ts';

type Props = { shown: DeveloperKey; run: () => Promise<void>; close: () => void };

export function RotateDialog({ shown: { key }, run, close }: Props) {
  return h(
    ConfirmDialog,
    { title: 'Rotate this key?', action: 'Rotate', run, close },
    h(
      'p',
      null,
      h('code', null, key),
      ' stops working everywhere, at once: every program that has it gets 401 INVALID_KEY.',
    ),
    h(
      'p',
      null,
      'A new key takes its place and is shown once. Plan, quota, usage and the limits of this minute carry over.',
    ),
  );
}

export function RevokeDialog({ shown: { key }, run, close }: Props) {
  return h(
    ConfirmDialog,
    { title: 'Revoke this key?', action: 'Revoke', isDangerous: true, run, close },
    h(
      'p',
      null,
      h('code', null, key),
      ' stops working everywhere, at once: every program that has it gets 401 INVALID_KEY.',
    ),
    h('p', null, 'Nothing takes its place until you mint another key. Batches that you have handed in go on.'),
  );
}
