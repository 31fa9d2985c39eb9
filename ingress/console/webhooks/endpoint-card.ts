import { h } from 'preact';
import type { Webhook } from '../../routes/present-webhook.ts';
import { StateBadge } from '../controls/state-badge.ts';
import { formatTime } from '../page/format.ts';

export type EndpointAction = 'edit' | 'switch' | 'rotate' | 'test' | 'delete';

type Props = {
  endpoint: Webhook;
  ask: (action: EndpointAction) => void;
  /** Its deliveries are shown. */
  isOpen: boolean;
  toggle: () => void;
};

const reasons = {
  failing: 'The service has disabled it: no attempt of three days has succeeded.',
  gone: 'The service has disabled it: your server answered 410 Gone.',
};

export function EndpointCard({ endpoint, ask, isOpen, toggle }: Props) {
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
