import { type ComponentChildren, h } from 'preact';
import { useId } from 'preact/hooks';
import { ApiFailure } from '../api/api-failure.ts';
import type { LoadState, NewestItems } from '../api/use-loaded.ts';
import { IssuerUnavailable, SignInEnded } from '../session/identity-provider.ts';
import { Icon } from './icons.ts';
import { AskForHelp } from './product.ts';

type Props<Value> = {
  loaded: LoadState<Value>;
  /** Name of the value, for the message while it loads. */
  what: string;
  /** How many lines the value usually takes: the page does not move when it comes. */
  lines?: number;
  children: (value: Value) => ComponentChildren;
};

/** Shows a value while it loads, after it failed, and when it is loaded; a loaded value stays if a reload fails. */
export function LoadedView<Value>({ loaded, what, lines = 1, children }: Props<Value>) {
  const { value, error, loading, reload } = loaded;
  return h(
    'div',
    { class: 'loaded', 'aria-busy': loading },
    error !== undefined && h(Failure, { error, retry: reload }),
    value === undefined && loading && h(Skeleton, { what, lines }),
    value !== undefined && children(value),
  );
}

/** In place of a value that is not there yet. */
function Skeleton({ what, lines }: { what: string; lines: number }) {
  return h(
    'div',
    { class: 'skeleton' },
    h('p', { class: 'unseen', role: 'status' }, `Loading ${what} …`),
    Array.from({ length: lines }, (_, index) => h('span', { key: index, 'aria-hidden': true })),
  );
}

type NewestProps<Item> = {
  newest: NewestItems<Item>;
  /** Name of the list, for the message while it loads. */
  what: string;
  /** How many lines it usually has. */
  lines?: number;
  /** Instead of an empty list. */
  empty: ComponentChildren;
  /** In a panel, which has several lists: what the button for more shows more of. */
  inPanel?: string;
  children: (items: Item[]) => ComponentChildren;
};

/** Shows the first items of a list, with a button for more. */
export function NewestView<Item>({ newest, what, lines = 1, empty, inPanel, children }: NewestProps<Item>) {
  const more = h(
    'button',
    { type: 'button', onClick: newest.showMore },
    inPanel ? `Show more ${inPanel}` : 'Show more',
  );
  return h(LoadedView<NonNullable<typeof newest.value>>, {
    loaded: newest,
    what,
    lines,
    children: ({ data, has_more }) => [
      data.length === 0 ? h('div', { class: inPanel ? 'quiet' : 'empty' }, empty) : children(data),
      has_more && (inPanel ? h('div', { class: 'actions' }, more) : more),
    ],
  });
}

/** The error message of the API, with the request id to find it in the log. */
export function Failure({ error, retry }: { error: unknown; retry?: () => void }) {
  return h(
    'div',
    { class: 'failure' },
    // Only the message is announced, so that a failure that repeats is announced once.
    h('p', { role: 'alert' }, wordsOf(error)),
    error instanceof ApiFailure &&
      h(
        'p',
        { class: 'quiet' },
        error.status > 0 && `${error.status} `,
        h('code', null, error.code),
        error.requestId !== undefined && [' · request ', h('code', null, error.requestId)],
        error.helpUrl !== undefined && [' · ', h('a', { href: error.helpUrl }, 'What this means')],
        h(AskForHelp, null),
      ),
    retry && h('button', { type: 'button', onClick: retry }, 'Try again'),
  );
}

function wordsOf(error: unknown): string {
  const hasMessage = error instanceof ApiFailure || error instanceof SignInEnded || error instanceof IssuerUnavailable;
  return hasMessage ? error.message : 'This page has failed. Reload it to continue.';
}

type PanelProps = {
  title: string;
  /** The page that has all of it. */
  more?: { href: string; link: string };
  children?: ComponentChildren;
};

/** A part of a page that shows several things. */
export function Panel({ title, more, children }: PanelProps) {
  const id = useId();
  return h(
    'section',
    { class: 'card panel', 'aria-labelledby': id },
    h(
      'div',
      { class: 'panel-head' },
      h('h2', { id }, title),
      more && h('a', { href: more.href }, more.link, h(Icon, { name: 'next' })),
    ),
    children,
  );
}
