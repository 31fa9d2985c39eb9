import { h } from 'preact';
import { useState } from 'preact/hooks';
import type { Webhook, WebhookDelivery } from '../../routes/present-webhook.ts';
import type { Api } from '../api/api.ts';
import { useNewest, usePolled } from '../api/use-loaded.ts';
import { useDoing } from '../page/actions.ts';
import { StateFilter } from '../page/fields.ts';
import { formatTime } from '../page/format.ts';
import { StateBadge, type Tone } from '../page/icons.ts';
import { Failure, NewestView } from '../page/loaded-view.ts';
import { Table } from '../page/table.ts';

type Props = { api: Api; endpoint: Webhook };

type State = WebhookDelivery['state'];

const states: readonly State[] = ['waiting', 'delivered', 'failed'];
const refreshEveryMs = 2_000;

/** The deliveries to an endpoint of the last 30 days, newest first. */
export function Deliveries({ api, endpoint: { id, url, enabled } }: Props) {
  const [state, setState] = useState<State>();
  const path = `/v1/webhooks/${id}/deliveries`;
  const deliveries = useNewest<WebhookDelivery>(api, path, { filter: state === undefined ? {} : { state } });
  const waits = deliveries.value?.data.some((delivery) => delivery.state === 'waiting') === true;
  usePolled(deliveries, { everyMs: refreshEveryMs, active: waits });

  async function sendAgain(event: string): Promise<void> {
    await api.call(`${path}/${event}/retry`, { method: 'POST', body: {} });
    deliveries.reload();
  }

  return h(
    'section',
    { 'aria-label': `Deliveries to ${url}` },
    h(StateFilter<State>, { what: 'deliveries', states, state, setState }),
    h(NewestView<WebhookDelivery>, {
      newest: deliveries,
      what: 'the deliveries',
      empty: 'There are no such deliveries.',
      children: (shown) => h(DeliveryTable, { deliveries: shown, ...(enabled && { sendAgain }) }),
    }),
  );
}

type TableProps = { deliveries: readonly WebhookDelivery[]; sendAgain?: (event: string) => Promise<void> };

const tones: Record<WebhookDelivery['state'], Tone> = { waiting: 'moving', delivered: 'good', failed: 'bad' };

function DeliveryTable({ deliveries, sendAgain }: TableProps) {
  return h(Table<WebhookDelivery>, {
    caption: 'Deliveries of the last 30 days, newest first',
    rows: deliveries,
    rowKey: ({ id }) => id,
    columns: [
      { title: 'Event', cell: ({ type }) => type },
      { title: 'State', cell: ({ state }) => h(StateBadge, { state, tone: tones[state] }) },
      { title: 'Last attempt', cell: lastAttempt, holds: 'text' },
      { title: 'Attempts', cell: ({ attempt_count: count }) => count, holds: 'number' },
      { title: 'Created', cell: ({ created_at: at }) => formatTime(at) },
      { title: 'Again', cell: ({ id }) => (sendAgain === undefined ? null : h(SendAgain, { id, sendAgain })) },
      { title: 'ID', cell: ({ id }) => h('code', null, id) },
      { title: 'Body', cell: ({ payload }) => h(Payload, { payload }), holds: 'text' },
    ],
  });
}

function lastAttempt({ attempts, reason, next_attempt_at: next }: WebhookDelivery): string {
  const last = attempts.at(-1);
  const result = last === undefined ? '–' : `${last.status ?? last.error} after ${last.ms} ms, ${formatTime(last.at)}`;
  const more = reason ?? (next === null || last === undefined ? undefined : `next at ${formatTime(next)}`);
  return more === undefined ? result : `${result}; ${more}`;
}

function SendAgain({ id, sendAgain }: { id: string; sendAgain: (event: string) => Promise<void> }) {
  const doing = useDoing(() => sendAgain(id));
  return [
    h(
      'button',
      { type: 'button', 'aria-label': `Send again: ${id}`, 'aria-disabled': doing.busy, onClick: doing.run },
      'Send again',
    ),
    doing.error !== undefined && h(Failure, { error: doing.error }),
  ];
}

function Payload({ payload }: Pick<WebhookDelivery, 'payload'>) {
  return h('details', null, h('summary', null, 'Show'), h('pre', null, JSON.stringify(payload, null, 2)));
}
