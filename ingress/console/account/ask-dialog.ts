import { type ComponentChildren, h } from 'preact';
import { useState } from 'preact/hooks';
import { ConfirmDialog } from '../controls/confirm-dialog.ts';
import { ReasonField } from './reason-field.ts';

type Props = {
  title: string;
  action: string;
  account: string;
  isDangerous?: boolean;
  isReady?: boolean;
  run: (reason: string) => Promise<void>;
  close: () => void;
  children?: ComponentChildren;
};

/** Asks for confirmation and a reason of a change of this account. */
export function AskDialog({ account, run, children, ...dialog }: Props) {
  const [reason, setReason] = useState('');
  return h(
    ConfirmDialog,
    { ...dialog, run: () => run(reason.trim()) },
    h('p', null, h('code', null, account)),
    children,
    h(ReasonField, { reason, setReason }),
  );
}
