import { h } from 'preact';
import type { Webhook } from '../../routes/present-webhook.ts';
import { ConfirmDialog } from '../controls/confirm-dialog.ts';
import type { EndpointAction } from './endpoint-card.ts';

type ConfirmedAction = Exclude<EndpointAction, 'edit'>;
type Props = { action: ConfirmedAction; endpoint: Webhook; run: () => Promise<void>; close: () => void };
type Question = { title: string; action: string; text: string; isDangerous?: boolean };

/** Asks before an endpoint changes. */
export function EndpointDialog({ action, endpoint, run, close }: Props) {
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
