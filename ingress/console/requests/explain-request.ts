import type { Request } from '../../routes/present-request.ts';
import { formatCount } from '../page/format.ts';
import { failuresOf, kindOf, type ShownAttempt } from './attempt-words.ts';
import { codeWords, type RunbookName } from './code-words.ts';

/** A request as its account sees it; `account` is there if an operator does. */
export type ShownRequest = Omit<Request, 'attempts'> & { attempts: ShownAttempt[]; account?: string };

/** What became of a request, in words. */
export type Explanation = {
  tone: 'good' | 'bad' | 'neutral' | 'moving';
  /** One sentence. */
  happened: string;
  /** What the client got, what was charged, and what to do: a sentence each. */
  details: string[];
  /** The page that helps operators; undefined for accounts. */
  runbook: RunbookName | undefined;
};

export function explainRequest(request: ShownRequest): Explanation {
  const { outcome, state } = request;
  if (outcome === null) return { tone: 'moving', happened: movingWords[state], details: [], runbook: undefined };
  const isOwn = request.account === undefined;
  const words = request.code === null ? undefined : codeWords[request.code];
  const repair = isOwn ? undefined : words?.repair;
  const advice = outcome === 'lost' ? 'Send it again.' : words?.advice;
  return {
    tone: tones[outcome],
    happened: happenedTo(request, isOwn),
    details: [
      toldOf(request),
      chargeOf(request),
      advice && (isOwn ? advice : `The account can: ${lowered(advice)}`),
      repair && `You can: ${lowered(repair)}`,
    ].filter((sentence) => sentence !== undefined),
    runbook: isOwn ? undefined : runbookOf(request),
  };
}

const tones = { completed: 'good', failed: 'bad', cancelled: 'neutral', lost: 'bad' } as const;

const movingWords: Record<Request['state'], string> = {
  queued: 'It waits for a worker.',
  running: 'A worker is asking a model server.',
  streaming: 'Its answer is being delivered.',
  ended: 'It has ended.',
};

function happenedTo(request: ShownRequest, isOwn: boolean): string {
  const { outcome, code, attempts } = request;
  const failures = failuresOf(attempts, { isOwn });
  if (outcome === 'completed' && attempts.at(-1)?.outcome === 'over_limit')
    return 'The answer was cut at its output limit.';
  if (outcome === 'completed')
    return failures === '' ? 'The answer was complete.' : `The answer was complete, after a failure: ${failures}.`;
  if (outcome === 'lost') return 'No process was left to end the request.';
  const stopped = attempts.findLast((attempt) => attempt.outcome === 'stopped')?.cause;
  if (outcome === 'cancelled' && stopped) return `${raised(stopped)} before the answer was complete.`;
  if (outcome === 'cancelled' && code === null) return 'The request was ended before its answer was complete.';
  if (code === 'SERVICE_UNAVAILABLE' && attempts.length === 0 && request.queue_ms === null)
    return 'No worker took the request before its time in the queue was over.';
  const happened =
    code === null ? 'The request failed' : (codeWords[code]?.happened ?? `The request ended with ${code}`);
  if (failures !== '') return `${happened}: ${failures}.`;
  return code === 'UPSTREAMS_EXHAUSTED'
    ? `${happened}: all of them were busy, were loading the model, or were paused after failures.`
    : `${happened}.`;
}

/** Every 503 has `Retry-After`. */
function toldOf({ status, code, outcome, batch_id: batch, attempts }: ShownRequest): string | undefined {
  if (outcome === 'cancelled' && attempts.some(({ cause }) => cause === 'the client left'))
    return 'The client had left, so it got nothing.';
  if (code === null) return undefined;
  const message = codeWords[code]?.message;
  const quoted = message === undefined ? '' : `, "${message}"`;
  if (batch !== null) return `The error file of the batch says ${code}${quoted}.`;
  if (status === 200) return `The stream had begun with status 200, and ended with the error ${code}${quoted}.`;
  return `The client got ${status ?? ''} ${code}${quoted}${status === 503 ? ', with Retry-After' : ''}.`.replace(
    '  ',
    ' ',
  );
}

function chargeOf({ outcome, charged_tokens: charged }: ShownRequest): string | undefined {
  if (charged === null) return undefined;
  if (charged === 0) return 'Nothing was charged.';
  const part = outcome === 'completed' ? '' : ', for the prompt and the part that was delivered';
  return `${formatCount(charged)} tokens were charged${part}.`;
}

function runbookOf({ outcome, code, attempts, batch_id: batch, first_token_ms: firstMs }: ShownRequest) {
  if (outcome === 'lost') return batch === null ? 'leases-expiring' : 'batch-lines-lost';
  const kinds = new Set(attempts.flatMap((attempt) => kindOf(attempt) ?? []));
  if (outcome === 'completed') return runbookAfterFailures(kinds);
  if (code === 'UPSTREAMS_EXHAUSTED') return runbookOfExhausted(kinds);
  if (code === 'SERVICE_UNAVAILABLE') return 'queue-waits-long';
  if (code === 'UPSTREAM_INTERRUPTED') return 'backend-failing';
  if (code === 'DEADLINE_EXCEEDED') return firstMs === null ? 'first-token-slow' : undefined;
  return code === 'INTERNAL_ERROR' ? 'requests-failing' : undefined;
}

const runbookByKind = {
  account: 'backend-account-refused',
  model: 'backend-lacks-model',
  busy: 'queue-waits-long',
  loading: 'backend-loading',
  failed: 'model-down',
  long: 'output-limit-ignored',
  stopped: undefined,
} as const satisfies Record<NonNullable<ReturnType<typeof kindOf>>, RunbookName | undefined>;

function runbookOfExhausted(kinds: ReadonlySet<keyof typeof runbookByKind>): RunbookName | undefined {
  const [only, ...others] = kinds;
  return only === undefined || others.length > 0 ? 'model-down' : runbookByKind[only];
}

/** It was answered in the end: a model server that was busy needs no repair. */
function runbookAfterFailures(kinds: ReadonlySet<keyof typeof runbookByKind>): RunbookName | undefined {
  for (const kind of ['account', 'model', 'long'] as const) if (kinds.has(kind)) return runbookByKind[kind];
  return kinds.has('failed') ? 'backend-failing' : undefined;
}

function raised(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

function lowered(text: string): string {
  return text.charAt(0).toLowerCase() + text.slice(1);
}
