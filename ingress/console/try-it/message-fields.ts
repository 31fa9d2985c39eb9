import { h } from 'preact';
import type { Message } from './endpoints/tried-endpoint.ts';

type Messages = readonly Message[];
type Props = { messages: Messages; change: (messages: Messages) => void };

const roles: Message['role'][] = ['system', 'user', 'assistant'];

/** Fields to change, add and remove the messages of a conversation. */
export function MessageFields({ messages, change }: Props) {
  const replace = (index: number, part: Partial<Message>) =>
    change(messages.map((message, at) => (at === index ? { ...message, ...part } : message)));
  return h(
    'fieldset',
    null,
    h('legend', null, 'Messages'),
    messages.map(({ role, content }, index) =>
      h(
        'div',
        { class: 'message', key: index },
        h(
          'select',
          {
            'aria-label': `Role of message ${index + 1}`,
            value: role,
            onChange: ({ currentTarget }: { currentTarget: HTMLSelectElement }) =>
              replace(index, { role: currentTarget.value as Message['role'] }), // one of the options
          },
          roles.map((name) => h('option', { key: name, value: name }, name)),
        ),
        h('textarea', {
          'aria-label': `Text of message ${index + 1}`,
          rows: 3,
          value: content,
          onInput: ({ currentTarget }: { currentTarget: HTMLTextAreaElement }) =>
            replace(index, { content: currentTarget.value }),
        }),
        h(
          'button',
          {
            type: 'button',
            'aria-label': `Remove message ${index + 1}`,
            disabled: messages.length === 1,
            onClick: () => change(messages.filter((_, at) => at !== index)),
          },
          'Remove',
        ),
      ),
    ),
    h(
      'button',
      { type: 'button', onClick: () => change([...messages, { role: 'user', content: '' }]) },
      'Add a message',
    ),
  );
}
