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
  const { takes, isGenerating } = endpoint;
  return [
    h(
      'div',
      { class: 'fields' },
      h(ModelField, { models, draft, change }),
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

function ModelField({ models, draft, change }: DraftProps & Pick<Props, 'models'>) {
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

function LimitField({ endpoint, draft, change }: DraftProps & Pick<Props, 'endpoint'>) {
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
        h(
          'label',
          { key: name },
          sampling[name].label,
          h('input', {
            type: 'number',
            min: 0,
            max: sampling[name].max,
            step: 'any',
            value: draft[name],
            placeholder: 'model default',
            onInput: (event: Event) => change({ [name]: fieldValue(event) }),
          }),
        ),
      ),
    ),
  );
}

function fieldValue({ currentTarget }: Event): string {
  return (currentTarget as HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement).value; // used on these elements only
}
