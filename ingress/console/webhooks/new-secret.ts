import { h } from 'preact';
import { useEffect, useId, useRef } from 'preact/hooks';
import type { CreatedWebhook } from '../../routes/webhooks/webhook-schemas.ts';
import { CopyButton } from '../page/copy-button.ts';

/** The secret of an endpoint, shown once. */
export function NewSecret({ endpoint: { url, secret }, dismiss }: { endpoint: CreatedWebhook; dismiss: () => void }) {
  const id = useId();
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    // Later: a dialog that is still open lets nothing outside of it have the focus, and returns the focus when it closes.
    const timer = setTimeout(() => heading.current?.focus());
    return () => clearTimeout(timer);
  }, []);
  return h(
    'section',
    { class: 'notice', 'aria-labelledby': id },
    h('h2', { id, tabIndex: -1, ref: heading }, 'The secret of the endpoint'),
    h('p', { class: 'address' }, url),
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
