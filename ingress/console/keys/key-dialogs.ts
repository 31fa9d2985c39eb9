import { h } from 'preact';
import type { AccountKey } from '../../api/response-schemas.ts';
import { ConfirmDialog } from '../page/confirm-dialog.ts';

type Props = { shown: AccountKey; run: () => Promise<void>; close: () => void };

export function RotateDialog({ shown: { key }, run, close }: Props) {
  return h(
    ConfirmDialog,
    { title: 'Rotate this key?', action: 'Rotate', run, close },
    h(
      'p',
      null,
      h('code', null, key),
      ' stops working everywhere, immediately: programs that use it get 401 INVALID_KEY.',
    ),
    h(
      'p',
      null,
      'A new key replaces it and is shown once. Plan, quota, usage and the counters of rate limits stay the same.',
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
      ' stops working everywhere, immediately: programs that use it get 401 INVALID_KEY.',
    ),
    h('p', null, 'Your account has no key until you mint another one. Batches that you have created continue.'),
  );
}
