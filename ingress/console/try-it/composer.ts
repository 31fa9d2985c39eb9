import { h } from 'preact';
import { type Composition, isEmpty } from './conversation.ts';
import type { TriedEndpoint } from './tried-endpoint.ts';
import type { Trial } from './use-trial.ts';

type Props = { trial: Trial; endpoint: TriedEndpoint; send: () => void };

/** What to send next: a message, or the texts that the endpoint takes. */
export function Composer({ trial, endpoint, send }: Props) {
  const { composition, isRunning } = trial;
  const { takes } = endpoint;
  const field = (name: TextName, label: string, isLines = false) =>
    h(TextField, { key: name, name, label, isLines, value: composition[name], change: trial.change });
  const submit = (event: Event) => {
    event.preventDefault();
    send();
  };
  return h(
    'form',
    { class: 'composer', onSubmit: submit, onKeyDown: sendByKeyboard },
    takes === 'messages' && field('message', 'Message'),
    takes !== 'messages' && field('input', takes === 'documents' ? 'Query' : 'Input'),
    takes === 'documents' && field('documents', 'Documents, one a line', true),
    h(
      'div',
      { class: 'actions' },
      h(
        'button',
        {
          type: 'submit',
          class: 'primary',
          disabled: !isRunning && isEmpty(composition, endpoint),
          'aria-disabled': isRunning,
        },
        'Send',
      ),
      h('button', { type: 'button', 'aria-disabled': !isRunning, onClick: trial.stop }, 'Stop'),
      trial.turns.length > 0 && h('button', { type: 'button', onClick: trial.clear }, 'Clear'),
      h(
        'span',
        { class: 'quiet key-hint' },
        h('kbd', null, 'Enter'),
        ' sends, ',
        h('kbd', null, 'Shift'),
        ' ',
        h('kbd', null, 'Enter'),
        ' is a new line',
      ),
    ),
  );
}

/** Enter sends; in a text of several lines only with Ctrl, or ⌘ on Apple's keyboards. */
function sendByKeyboard(event: KeyboardEvent): void {
  if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
  const { target } = event;
  if (!(target instanceof HTMLTextAreaElement)) return;
  if (target.dataset.lines !== undefined && !event.ctrlKey && !event.metaKey) return;
  event.preventDefault();
  target.form?.requestSubmit();
}

type TextName = 'message' | 'input' | 'documents' | 'system';
type TextProps = {
  name: TextName;
  label: string;
  /** Whether Enter begins a new line. */
  isLines?: boolean;
  value: string;
  placeholder?: string;
  change: (part: Partial<Composition>) => void;
};

/** A text that is as high as what was written. */
export function TextField({ name, label, isLines = false, value, placeholder, change }: TextProps) {
  return h(
    'label',
    { class: 'text' },
    h('span', null, label),
    h('textarea', {
      rows: isLines ? 3 : 1,
      value,
      placeholder,
      ...(isLines && { 'data-lines': '' }),
      onInput: ({ currentTarget }: { currentTarget: HTMLTextAreaElement }) => change({ [name]: currentTarget.value }),
    }),
  );
}
