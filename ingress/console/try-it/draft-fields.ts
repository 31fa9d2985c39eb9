import { h } from 'preact';
import type { Draft, TriedEndpoint } from './endpoints/tried-endpoint.ts';
import { MessageFields } from './message-fields.ts';

type Props = {
  endpoint: TriedEndpoint;
  /** Those that offer the endpoint. */
  models: readonly string[];
  draft: Draft;
  change: (part: Partial<Draft>) => void;
};

/** The fields of a request: what its endpoint takes. */
export function DraftFields({ endpoint, models, draft, change }: Props) {
  const hasMessages = endpoint.takes === 'messages';
  return [
    h(
      'div',
      { class: 'fields' },
      h(ModelField, { models, draft, change }),
      hasMessages && h(LimitField, { endpoint, draft, change }),
    ),
    hasMessages
      ? h(MessageFields, { messages: draft.messages, change: (messages) => change({ messages }) })
      : h(InputField, { draft, change }),
  ];
}

function ModelField({ models, draft, change }: Omit<Props, 'endpoint'>) {
  return h(
    'label',
    null,
    'Model',
    h(
      'select',
      { value: draft.model, onChange: (event: Event) => change({ model: fieldValue(event) }) },
      models.map((model) => h('option', { key: model, value: model }, model)),
    ),
  );
}

function LimitField({ endpoint, draft, change }: Omit<Props, 'models'>) {
  return h(
    'label',
    null,
    'Max output tokens',
    h('input', {
      type: 'number',
      min: 1,
      value: draft.maxTokens,
      placeholder: endpoint.maxTokensDefault === undefined ? 'model limit' : String(endpoint.maxTokensDefault),
      onInput: (event: Event) => change({ maxTokens: fieldValue(event) }),
    }),
  );
}

function InputField({ draft, change }: Pick<Props, 'draft' | 'change'>) {
  return h(
    'fieldset',
    null,
    h('legend', null, 'Input'),
    h('textarea', {
      'aria-label': 'Text of the input',
      rows: 3,
      value: draft.input,
      required: true,
      onInput: (event: Event) => change({ input: fieldValue(event) }),
    }),
  );
}

function fieldValue({ currentTarget }: Event): string {
  return (currentTarget as HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement).value; // used on these elements only
}
