import type { Request } from '../../routes/present-request.ts';

/** A call of a model server. Its name, its address and the rule are only for operators. */
export type ShownAttempt = Request['attempts'][number] & {
  backend?: string | null;
  address?: string | null;
  rule?: string | null;
};

/** What kind of failure a call was, which decides who can repair it. */
export type FailureKind = 'account' | 'model' | 'busy' | 'loading' | 'stopped' | 'long' | 'failed';

/** Rules that recognise that a backend refused the account of this service there. */
const accountRules = /^(key-|account-|credit-|spending-|region-)/;

/** Undefined for a call that was answered. */
export function kindOf({ outcome, cause, rule }: ShownAttempt): FailureKind | undefined {
  if (outcome === 'answered') return undefined;
  if (outcome === 'over_limit') return 'long';
  if (outcome === 'busy' || outcome === 'loading' || outcome === 'stopped') return outcome;
  if (accountRules.test(rule ?? '') || /^HTTP 40[123]$/.test(cause ?? '')) return 'account';
  return outcome === 'not_offered' || /^HTTP (404|405|501)$/.test(cause ?? '') ? 'model' : 'failed';
}

const causePhrases: Readonly<Record<string, string>> = {
  'connection refused': 'refused the connection',
  'connection closed by the server': 'closed the connection',
  'connection timed out': 'did not accept a connection in time',
  'connection failed': 'could not be reached',
  'host name not found': 'has a host name that was not found',
  'host unreachable': 'could not be reached',
  'network unreachable': 'could not be reached',
  'unreadable answer': 'sent an answer that could not be read',
  'answer broke off': 'broke off its answer',
  'answer too large': 'sent an answer that was too large',
  'an error in its answer': 'answered with an error',
};

const outcomePhrases: Readonly<Record<string, string>> = {
  over_limit: 'wrote more than the output limit',
  too_large: 'sent an answer that was too large',
  refused: 'refused the request as invalid',
  too_long: 'had no room for such a long prompt',
  busy: 'was busy',
  loading: 'was loading the model',
  not_offered: 'does not offer the model at this endpoint',
  interrupted: 'broke off its answer',
  stopped: 'was stopped',
  lost: 'was lost with its worker',
};

/** What a call that gave no answer did, after its subject: `refused the connection`. `key`: how the reader knows the key that was used. */
function failurePhrase(attempt: ShownAttempt, key: string): string {
  const { outcome, cause } = attempt;
  const kind = kindOf(attempt);
  const [, status] = /^HTTP (\d+)$/.exec(cause ?? '') ?? [];
  if (kind === 'account') return status === '402' ? 'wants to be paid' : `refused ${key}`;
  const known = cause === null ? undefined : (causePhrases[cause] ?? timePhrase(cause));
  if (known !== undefined) return known;
  const phrase = outcomePhrases[outcome];
  if (phrase !== undefined) return status === undefined ? phrase : `${phrase} (HTTP ${status})`;
  if (status !== undefined) return `answered HTTP ${status}`;
  return cause?.startsWith('TLS certificate ')
    ? cause.replace('TLS', 'has a TLS').replace('certificate', 'certificate that')
    : 'failed';
}

/** `no token within 30 s`. */
function timePhrase(cause: string): string | undefined {
  const [, what = '', time] = /^(no connection|no token|nothing) within (.+)$/.exec(cause) ?? [];
  const verb = {
    'no connection': 'did not accept a connection',
    'no token': 'sent no token',
    nothing: 'stopped sending',
  };
  return time === undefined ? undefined : `${verb[what as keyof typeof verb]} within ${time}`; // the pattern has these
}

const numbers = ['no', 'one', 'two', 'three', 'four', 'five', 'six', 'seven', 'eight', 'nine', 'ten'];

/**
 * What the calls did that gave no answer: `two refused the connection, the cloud refused our key`. Accounts do not see the names of
 * backends, so they cannot know how many there are.
 */
export function failuresOf(attempts: readonly ShownAttempt[], { isOwn }: { isOwn: boolean }): string {
  const failed = attempts.filter((attempt) => attempt.outcome !== 'answered');
  const phraseOf = (attempt: ShownAttempt) => failurePhrase(attempt, isOwn ? "the service's key" : 'our key');
  return [...Map.groupBy(failed, phraseOf)].map(([phrase, calls]) => `${subjectOf(calls)} ${phrase}`).join(', ');
}

function subjectOf(calls: readonly ShownAttempt[]): string {
  const names = [...new Set(calls.flatMap(({ backend }) => backend ?? []))];
  const locations = [...new Set(calls.map(({ location }) => location))];
  const isCloud = locations.length === 1 && locations[0] === 'cloud';
  if (isCloud && names.length < 2) return 'the cloud';
  if (names.length > 1) return numbers[names.length] ?? String(names.length);
  if (names[0] !== undefined) return names[0];
  const place = locations.length === 1 ? locations[0] : undefined;
  if (calls.length > 1) return place ? `${place} model servers` : 'model servers';
  return place ? `an ${place} model server` : 'a model server';
}

/** What a call came to, for a table. */
export function attemptState({ outcome, cause }: ShownAttempt): string {
  return cause ?? outcome.replaceAll('_', ' ');
}
