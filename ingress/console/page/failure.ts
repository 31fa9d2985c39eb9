import { h } from 'preact';
import { ApiFailure } from '../api/api-failure.ts';
import { IssuerAway, SignInEnded } from '../session/identity-provider.ts';

/** What went wrong, in the words of the API, with the request id that its log has. */
export function Failure({ error, retry }: { error: unknown; retry?: () => void }) {
  return h(
    'div',
    { class: 'failure' },
    // Only the words are announced, so that the same failure of each try is announced once.
    h('p', { role: 'alert' }, wordsOf(error)),
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
