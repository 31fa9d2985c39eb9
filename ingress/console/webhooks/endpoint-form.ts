import { h } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { WebhookEvent } from '../../../shared/store/records/webhooks.ts';
import type { Webhook } from '../../routes/present-webhook.ts';
import { type FieldErrors, fieldErrorsOf } from '../api/api-failure.ts';
import { ConfirmDialog } from '../page/actions.ts';
import { TextField } from '../page/fields.ts';

/** The events with what they say, by the names of the API. */
const eventLabels = {
  'batch.completed': 'A batch has completed',
  'batch.failed': 'A batch has failed',
  'batch.expired': 'A batch has expired',
  'batch.cancelled': 'A batch was cancelled',
  'quota.threshold': '80, 95 or 100 % of the quota of the month are used',
  'key.expiring': 'A key expires within seven days',
} satisfies Record<WebhookEvent, string>;

const labelOf: Readonly<Record<string, string>> = eventLabels;

const fields = ['url', 'description', 'events'] as const;
export type EndpointFields = { url: string; description: string; events: readonly string[] };

/** What most programs wait for is chosen already. */
const newEndpoint: EndpointFields = {
  url: '',
  description: '',
  events: ['batch.completed', 'batch.failed', 'quota.threshold'] satisfies WebhookEvent[],
};

type Props = {
  /** The endpoint to edit; undefined to create one. */
  shown?: Webhook;
  save: (fields: EndpointFields) => Promise<void>;
  close: () => void;
};

/** The settings of an endpoint, to create it or to change it. */
export function EndpointForm({ shown, save, close }: Props) {
  const [draft, setDraft] = useState<EndpointFields>(shown ?? newEndpoint);
  const [errors, setErrors] = useState<FieldErrors<(typeof fields)[number]>>({});
  const part = useRef<HTMLDivElement>(null);
  useEffect(() => part.current?.querySelector<HTMLElement>('[aria-invalid], .refused input')?.focus(), [errors]);
  const change = (changed: Partial<EndpointFields>) => setDraft((now) => ({ ...now, ...changed }));

  async function run(): Promise<void> {
    setErrors({});
    try {
      const { url, description, events } = draft;
      await save({ url: url.trim(), description: description.trim(), events });
    } catch (error) {
      setErrors(fieldErrorsOf(error, fields));
      throw error;
    }
  }

  const title = shown === undefined ? 'Create an endpoint' : 'Edit the endpoint';
  return h(
    ConfirmDialog,
    { title, action: shown === undefined ? 'Create' : 'Save', fields, run, close },
    h(
      'div',
      { ref: part },
      h(TextField, {
        label: 'URL',
        hint: 'A public https: address of your server.',
        error: errors.url,
        value: draft.url,
        change: (url: string) => change({ url }),
        input: { type: 'url', placeholder: 'https://app.example.com/events', required: true, maxLength: 2_048 },
      }),
      h(TextField, {
        label: 'Description',
        error: errors.description,
        value: draft.description,
        change: (description: string) => change({ description }),
        input: { maxLength: 200, placeholder: 'optional' },
      }),
      h(EventChoice, { chosen: draft.events, choose: (events) => change({ events }), error: errors.events }),
    ),
  );
}

type EventChoiceProps = {
  chosen: readonly string[];
  choose: (events: readonly string[]) => void;
  error: string | undefined;
};

/** An event that a later release has added stays chosen. */
function EventChoice({ chosen, choose, error }: EventChoiceProps) {
  const names = [...new Set([...Object.keys(eventLabels), ...chosen])];
  const toggle = (name: string) => choose(names.filter((each) => chosen.includes(each) !== (each === name)));
  return h(
    'fieldset',
    { class: error === undefined ? '' : 'refused' },
    h('legend', null, 'Events'),
    h(
      'div',
      { class: 'options' },
      names.map((name) =>
        h(
          'label',
          { key: name },
          h('input', { type: 'checkbox', checked: chosen.includes(name), onChange: () => toggle(name) }),
          labelOf[name] ?? name,
        ),
      ),
    ),
    error && h('p', { class: 'wrong' }, error),
  );
}
