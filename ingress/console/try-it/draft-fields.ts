import { h } from 'preact';
import { LabelledInput, namedOptions, Select } from '../page/fields.ts';
import type { Draft, Message, TriedEndpoint } from './tried-endpoint.ts';

type Props = {
  endpoint: TriedEndpoint;
  /** Those that offer the endpoint. */
  models: readonly string[];
  draft: Draft;
  change: (part: Partial<Draft>) => void;
};

/** The fields of a request: what its endpoint takes. */
export function DraftFields({ endpoint, models, draft, change }: Props) {
  const { takes, isGenerating } = endpoint;
  return [
    h(
      'div',
      { class: 'fields' },
      h(Select<string>, {
        label: 'Model',
        options: namedOptions(models),
        value: draft.model,
        change: (model) => change({ model }),
      }),
      isGenerating && h(LimitField, { endpoint, draft, change }),
    ),
    takes === 'messages'
      ? h(MessageFields, { messages: draft.messages, change: (messages) => change({ messages }) })
      : h(TextField, { name: 'input', label: takes === 'documents' ? 'Query' : 'Input', draft, change }),
    takes === 'documents' && h(TextField, { name: 'documents', label: 'Documents, one a line', draft, change }),
    isGenerating && h(Sampling, { draft, change }),
  ];
}

type DraftProps = Pick<Props, 'draft' | 'change'>;

function LimitField({ endpoint, draft, change }: DraftProps & Pick<Props, 'endpoint'>) {
  const usual = endpoint.maxTokensDefault;
  return h(LabelledInput, {
    label: 'Max output tokens',
    type: 'number',
    value: draft.maxTokens,
    change: (maxTokens) => change({ maxTokens }),
    input: { min: 1, placeholder: usual === undefined ? 'model limit' : String(usual) },
  });
}

type TextProps = DraftProps & { name: 'input' | 'documents'; label: string };

function TextField({ name, label, draft, change }: TextProps) {
  return h(
    'fieldset',
    null,
    h('legend', null, label),
    h('textarea', {
      'aria-label': label,
      rows: name === 'documents' ? 5 : 3,
      value: draft[name],
      required: true,
      onInput: (event: Event) => change({ [name]: fieldValue(event) }),
    }),
  );
}

const sampling = {
  temperature: { label: 'Temperature', max: 2 },
  topP: { label: 'Top p', max: 1 },
} as const;

/** What the model server decides unless it is set. */
function Sampling({ draft, change }: DraftProps) {
  return h(
    'details',
    { class: 'parameters' },
    h('summary', null, 'Parameters'),
    h(
      'div',
      { class: 'fields' },
      (Object.keys(sampling) as (keyof typeof sampling)[]).map((name) =>
        h(LabelledInput, {
          key: name,
          label: sampling[name].label,
          type: 'number',
          value: draft[name],
          change: (value) => change({ [name]: value }),
          input: { min: 0, max: sampling[name].max, step: 'any', placeholder: 'model default' },
        }),
      ),
    ),
  );
}

function fieldValue({ currentTarget }: Event): string {
  return (currentTarget as HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement).value; // used on these elements only
}

type Messages = readonly Message[];
type MessageFieldsProps = { messages: Messages; change: (messages: Messages) => void };

const roles: Message['role'][] = ['system', 'user', 'assistant'];

/** Fields to change, add and remove the messages of a conversation. */
function MessageFields({ messages, change }: MessageFieldsProps) {
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
