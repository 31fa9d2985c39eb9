import { h } from 'preact';
import { useId, useState } from 'preact/hooks';
import type { failingTime } from '../../../shared/store/records/webhooks.ts';
import type { CreatedWebhook, Webhook, WebhookList } from '../../routes/present-webhook.ts';
import type { Api } from '../api/api.ts';
import { ApiFailure } from '../api/api-failure.ts';
import { useLoaded } from '../api/use-loaded.ts';
import { ConfirmDialog } from '../page/actions.ts';
import { useFocusedHeading } from '../page/focus.ts';
import { formatTime } from '../page/format.ts';
import { StateBadge } from '../page/icons.ts';
import { CopyButton } from '../page/identifiers.ts';
import { LoadedView } from '../page/loaded-view.ts';
import { OperatorLink } from '../page/product.ts';
import { Deliveries } from './deliveries.ts';
import { type EndpointFields, EndpointForm } from './endpoint-form.ts';

type PendingAction = { action: EndpointAction; endpoint: Webhook };

/** The webhook endpoints of the account, and the deliveries to one of them. */
export function WebhooksPage({ api, docsUrl, isOperator }: { api: Api; docsUrl: string; isOperator: boolean }) {
  const [created, setCreated] = useState<CreatedWebhook>();
  const [isCreating, setCreating] = useState(false);
  const [asked, setAsked] = useState<PendingAction>();
  const [opened, setOpened] = useState<string>();
  const loaded = useLoaded((signal) => readEndpoints(api, signal), []);

  async function save(fields: EndpointFields, endpoint?: Webhook): Promise<void> {
    if (endpoint === undefined) setCreated(await api.call('/v1/webhooks', { method: 'POST', body: fields }));
    else await api.call(`/v1/webhooks/${endpoint.id}`, { method: 'PATCH', body: fields });
    loaded.reload();
  }

  async function perform({ action, endpoint: { id, enabled } }: PendingAction): Promise<void> {
    const path = `/v1/webhooks/${id}`;
    if (action === 'rotate') setCreated(await api.call(`${path}/rotate-secret`, { method: 'POST', body: {} }));
    if (action === 'delete') await api.call(path, { method: 'DELETE' });
    if (action === 'switch') await api.call(path, { method: 'PATCH', body: { enabled: !enabled } });
    if (action === 'test') {
      await api.call(`${path}/test`, { method: 'POST', body: {} });
      setOpened(id);
    }
    loaded.reload();
  }

  const close = () => setAsked(undefined);
  return [
    h('h1', { tabIndex: -1 }, 'Webhooks'),
    h('p', null, 'The service calls your server when a batch ends, your quota is nearly used, or a key expires soon.'),
    created && h(NewSecret, { key: created.secret, endpoint: created, dismiss: () => setCreated(undefined) }),
    h(LoadedView<Endpoints>, {
      loaded,
      what: 'the endpoints',
      children(endpoints) {
        if (endpoints === 'off') return h(Disabled, { docsUrl, isOperator });
        return [
          h(
            'div',
            { class: 'actions' },
            h('button', { type: 'button', class: 'primary', onClick: () => setCreating(true) }, 'Create an endpoint'),
          ),
          endpoints.length === 0 &&
            h(
              'p',
              { class: 'empty' },
              'You have no endpoints yet. Create one: the service then calls your server when a batch ends.',
            ),
          endpoints.map((endpoint) => [
            h(EndpointCard, {
              key: endpoint.id,
              endpoint,
              ask: (action) => setAsked({ action, endpoint }),
              isOpen: opened === endpoint.id,
              toggle: () => setOpened(opened === endpoint.id ? undefined : endpoint.id),
            }),
            opened === endpoint.id && h(Deliveries, { key: `deliveries of ${endpoint.id}`, api, endpoint }),
          ]),
        ];
      },
    }),
    isCreating && h(EndpointForm, { save, close: () => setCreating(false) }),
    asked?.action === 'edit' &&
      h(EndpointForm, { shown: asked.endpoint, save: (fields) => save(fields, asked.endpoint), close }),
    asked !== undefined &&
      asked.action !== 'edit' &&
      h(EndpointDialog, { action: asked.action, endpoint: asked.endpoint, run: () => perform(asked), close }),
  ];
}

/** Operators learn what to set. */
function Disabled({ docsUrl, isOperator }: { docsUrl: string; isOperator: boolean }) {
  if (!isOperator)
    return h(
      'p',
      { class: 'empty' },
      h(OperatorLink, null, 'The operator of this service'),
      ' has not enabled webhooks.',
    );
  return h(
    'p',
    { class: 'empty' },
    'Webhooks are not enabled. Set ',
    h('code', null, 'WEBHOOK_SECRET_KEY'),
    ' of all ingresses and workers to a random text of 32 characters or more, and restart them. ',
    h('a', { href: `${docsUrl}/webhooks#for-operators` }, 'Webhooks for operators'),
  );
}

type Endpoints = Webhook[] | 'off';

async function readEndpoints(api: Api, signal: AbortSignal): Promise<Endpoints> {
  try {
    return (await api.call<WebhookList>('/v1/webhooks', { signal })).data;
  } catch (error) {
    if (error instanceof ApiFailure && error.code === 'FORBIDDEN') return 'off';
    throw error;
  }
}

/** The secret of an endpoint, shown once. */
function NewSecret({ endpoint: { url, secret }, dismiss }: { endpoint: CreatedWebhook; dismiss: () => void }) {
  const id = useId();
  const heading = useFocusedHeading();
  return h(
    'section',
    { class: 'notice', 'aria-labelledby': id },
    h('h2', { id, tabIndex: -1, ref: heading }, 'The secret of the endpoint'),
    h('p', null, url),
    h('p', null, 'Your server verifies events with it. Store it now: it is shown only once and cannot be recovered.'),
    h('p', null, h('code', { class: 'key' }, secret)),
    h(
      'div',
      { class: 'actions' },
      h(CopyButton, { text: secret, label: 'Copy' }),
      h('button', { type: 'button', onClick: dismiss }, 'I have stored it'),
    ),
  );
}

type EndpointAction = 'edit' | 'switch' | 'rotate' | 'test' | 'delete';

type CardProps = {
  endpoint: Webhook;
  ask: (action: EndpointAction) => void;
  /** Its deliveries are shown. */
  isOpen: boolean;
  toggle: () => void;
};

const reasons = {
  failing: `The service has disabled it: no attempt of ${'three days' satisfies typeof failingTime.text} has succeeded.`,
  gone: 'The service has disabled it: your server answered 410 Gone.',
};

function EndpointCard({ endpoint, ask, isOpen, toggle }: CardProps) {
  const { url, description, events, enabled, disabled_reason: reason, old_secrets_until: until, created_at } = endpoint;
  const button = (label: string, action: EndpointAction, isDangerous = false) =>
    h(
      'button',
      {
        type: 'button',
        class: isDangerous ? 'danger' : '',
        'aria-label': `${label}: ${url}`,
        onClick: () => ask(action),
      },
      label,
    );
  return h(
    'section',
    { class: 'card', 'aria-label': url },
    h('h3', null, url),
    description !== '' && h('p', null, description),
    h(
      'p',
      null,
      h(StateBadge, enabled ? { state: 'enabled', tone: 'good' } : { state: 'disabled', tone: 'bad' }),
      ` ${events.join(', ')}`,
    ),
    reason !== null && h('p', { class: 'warning' }, reasons[reason]),
    until !== null &&
      h('p', { class: 'quiet' }, `Events are also signed with the old secret until ${formatTime(until)}.`),
    h('p', { class: 'quiet' }, `Created ${formatTime(created_at)}.`),
    h(
      'div',
      { class: 'actions' },
      h(
        'button',
        { type: 'button', 'aria-expanded': isOpen, 'aria-label': `Deliveries: ${url}`, onClick: toggle },
        'Deliveries',
      ),
      enabled && button('Send a test', 'test'),
      button('Edit', 'edit'),
      button(enabled ? 'Disable' : 'Enable', 'switch'),
      button('Rotate the secret', 'rotate'),
      button('Delete', 'delete', true),
    ),
  );
}

type ConfirmedAction = Exclude<EndpointAction, 'edit'>;
type DialogProps = { action: ConfirmedAction; endpoint: Webhook; run: () => Promise<void>; close: () => void };
type Question = { title: string; action: string; text: string; isDangerous?: boolean };

/** Asks before an endpoint changes. */
function EndpointDialog({ action, endpoint, run, close }: DialogProps) {
  const { text, ...question } = questionOf(action, endpoint);
  return h(ConfirmDialog, { ...question, run, close }, h('p', null, endpoint.url), h('p', null, text));
}

function questionOf(action: ConfirmedAction, { enabled }: Webhook): Question {
  switch (action) {
    case 'test':
      return {
        title: 'Send a test event?',
        action: 'Send',
        text: 'Its type is webhook.test. Its delivery is shown below.',
      };
    case 'rotate':
      return {
        title: 'Rotate the secret?',
        action: 'Rotate',
        text: 'The new secret is shown once. Events are also signed with the old one for 24 hours.',
      };
    case 'delete':
      return {
        title: 'Delete the endpoint?',
        action: 'Delete',
        isDangerous: true,
        text: 'Nothing is sent to it any more, and its deliveries are removed.',
      };
    case 'switch':
      return enabled
        ? {
            title: 'Disable the endpoint?',
            action: 'Disable',
            text: 'Events of the time while it is disabled are not sent.',
          }
        : {
            title: 'Enable the endpoint?',
            action: 'Enable',
            text: 'New events are sent from now on. Failed ones can be sent again.',
          };
  }
}
