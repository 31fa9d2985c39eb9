import { type ComponentChildren, h } from 'preact';
import { ApiFailure } from '../api/api-failure.ts';
import { IssuerAway, SignInEnded } from '../session/identity-provider.ts';
import type { Loaded } from './use-loaded.ts';

/** What went wrong, in the words of the API, with the request id that its log has. */
export function Failure({ error, retry }: { error: unknown; retry?: () => void }) {
  return h(
    'div',
    { class: 'failure', role: 'alert' },
    h('p', null, wordsOf(error)),
    error instanceof ApiFailure &&
      h(
        'p',
        { class: 'quiet' },
        error.status > 0 && `${error.status} `,
        h('code', null, error.code),
        error.requestId !== undefined && [' · request ', h('code', null, error.requestId)],
      ),
    retry && h('button', { type: 'button', onClick: retry }, 'Try again'),
  );
}

function wordsOf(error: unknown): string {
  const isTold = error instanceof ApiFailure || error instanceof SignInEnded || error instanceof IssuerAway;
  return isTold ? error.message : 'This page has failed. Reload it to go on.';
}

type Props<Value> = {
  loaded: Loaded<Value>;
  /** What is being loaded, for the words while it is. */
  what: string;
  children: (value: Value) => ComponentChildren;
};

/** A view in each of its states: loading, failed, there; and there while loading it anew has failed. */
export function LoadedView<Value>({ loaded: { value, error, loading, reload }, what, children }: Props<Value>) {
  return h(
    'div',
    { 'aria-busy': loading },
    error !== undefined && h(Failure, { error, retry: reload }),
    value === undefined && loading && h('p', { class: 'quiet', role: 'status' }, `Loading ${what} …`),
    value !== undefined && children(value),
  );
}
