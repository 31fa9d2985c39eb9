import { h } from 'preact';
import type { ShownTopUpCode } from '../../routes/top-up-codes.ts';
import { ConfirmDialog } from '../controls/confirm-dialog.ts';
import { formatCount } from '../page/format.ts';

type Props = { code: ShownTopUpCode; run: () => Promise<void>; close: () => void };

export function RevokeCodeDialog({ code: { id, tokens, note }, run, close }: Props) {
  return h(
    ConfirmDialog,
    { title: 'Revoke this code?', action: 'Revoke', isDangerous: true, run, close },
    h('p', null, h('code', null, id)),
    h('p', null, `${formatCount(tokens)} tokens${note === null ? '' : `: ${note}`}`),
    h('p', null, 'From then on no account can redeem it. This cannot be undone.'),
  );
}
