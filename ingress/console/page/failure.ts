import { h } from 'preact';
import { ApiFailure } from '../api/api-failure.ts';
import { IssuerUnavailable, SignInEnded } from '../session/identity-provider.ts';

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
      ),
    retry && h('button', { type: 'button', onClick: retry }, 'Try again'),
  );
}

function wordsOf(error: unknown): string {
  const hasMessage = error instanceof ApiFailure || error instanceof SignInEnded || error instanceof IssuerUnavailable;
  return hasMessage ? error.message : 'This page has failed. Reload it to continue.';
}
