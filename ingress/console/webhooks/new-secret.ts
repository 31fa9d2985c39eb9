import { h } from 'preact';
import { useId } from 'preact/hooks';
import type { CreatedWebhook } from '../../routes/present-webhook.ts';
import { CopyButton } from '../controls/copy-button.ts';
import { useFocusedHeading } from '../page/keep-focus.ts';

/** The secret of an endpoint, shown once. */
export function NewSecret({ endpoint: { url, secret }, dismiss }: { endpoint: CreatedWebhook; dismiss: () => void }) {
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
