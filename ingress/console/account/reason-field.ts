import { h } from 'preact';

type Props = { reason: string; setReason: (reason: string) => void };

/** The optional reason of a change, for the audit trail. */
export function ReasonField({ reason, setReason }: Props) {
  return h(
    'label',
    null,
    'Reason (for the audit trail)',
    h('input', {
      type: 'text',
      value: reason,
      maxLength: 500,
      placeholder: 'optional',
      autocomplete: 'off',
      onInput: ({ currentTarget }: { currentTarget: HTMLInputElement }) => setReason(currentTarget.value),
    }),
  );
}
