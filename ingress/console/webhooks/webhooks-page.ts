import { h } from 'preact';
import { useState } from 'preact/hooks';
import type { CreatedWebhook, Webhook, WebhookList } from '../../routes/present-webhook.ts';
import type { Api } from '../api/api.ts';
import { ApiFailure } from '../api/api-failure.ts';
import { LoadedView } from '../page/loaded-view.ts';
import { useLoaded } from '../page/use-loaded.ts';
import { Deliveries } from './deliveries.ts';
import { type EndpointAction, EndpointCard } from './endpoint-card.ts';
import { EndpointDialog } from './endpoint-dialogs.ts';
import { type EndpointFields, EndpointForm } from './endpoint-form.ts';
import { NewSecret } from './new-secret.ts';

type PendingAction = { action: EndpointAction; endpoint: Webhook };

/** The webhook endpoints of the account, and the deliveries to one of them. */
export function WebhooksPage({ api }: { api: Api }) {
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
        if (endpoints === 'off')
          return h('p', { class: 'empty' }, 'The operator of this service has not enabled webhooks.');
        return [
          h(
            'div',
            { class: 'actions' },
            h('button', { type: 'button', class: 'primary', onClick: () => setCreating(true) }, 'Create an endpoint'),
          ),
          endpoints.length === 0 && h('p', { class: 'empty' }, 'You have no endpoints yet.'),
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

type Endpoints = Webhook[] | 'off';

async function readEndpoints(api: Api, signal: AbortSignal): Promise<Endpoints> {
  try {
    return (await api.call<WebhookList>('/v1/webhooks', { signal })).data;
  } catch (error) {
    if (error instanceof ApiFailure && error.code === 'FORBIDDEN') return 'off';
    throw error;
  }
}
