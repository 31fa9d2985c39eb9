import { type ComponentChildren, h } from 'preact';
import { Icon } from '../page/icons.ts';

type Props = {
  /** Whether it is known yet what was done. */
  isKnown: boolean;
  hasKey: boolean;
  hasRequest: boolean;
  isUsed: boolean;
  /** Whether a key was just created here, which "Try it" starts with. */
  holdsKey: boolean;
  docsUrl: string;
};

/** What a new account does first. Disappears when all of it is done. */
export function FirstSteps({ isKnown, hasKey, hasRequest, isUsed, holdsKey, docsUrl }: Props) {
  const isStored = hasRequest && isUsed;
  if (!isKnown || (hasKey && isStored)) return null;
  const isUsable = hasKey && !hasRequest;
  return h(
    'section',
    { class: 'card steps', 'aria-labelledby': 'first-steps' },
    h('h2', { id: 'first-steps' }, 'First steps'),
    h(
      'ol',
      null,
      h(
        Step,
        { isDone: hasKey, title: 'Create a key' },
        'Your programs call the API with it.',
        !hasKey && h('a', { class: 'button primary', href: '#keys?new' }, 'Create a key'),
      ),
      h(
        Step,
        { isDone: hasRequest, title: 'Send a first request' },
        'From this page, or from a program.',
        isUsable &&
          h('a', { class: 'button primary', href: '#try-it' }, holdsKey ? 'Try it with your new key' : 'Try it'),
        h('a', { href: `${docsUrl}/quick-start` }, 'Quick start'),
      ),
      h(
        Step,
        { isDone: isStored, title: 'See it in your usage' },
        'A request is counted a few seconds after it ends.',
        hasRequest && h('a', { href: '#usage' }, 'Usage'),
      ),
    ),
  );
}

type StepProps = { isDone: boolean; title: string; children?: ComponentChildren };

function Step({ isDone, title, children }: StepProps) {
  const [words, ...actions] = [children].flat();
  return h(
    'li',
    { class: isDone ? 'step done' : 'step' },
    h(Icon, { name: isDone ? 'done' : 'todo' }),
    h(
      'div',
      null,
      h('strong', null, title),
      isDone && h('span', { class: 'unseen' }, ' (done)'),
      h('p', { class: 'quiet' }, words),
    ),
    h('div', { class: 'actions tight' }, actions),
  );
}
