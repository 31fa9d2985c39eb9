import type { Fault } from '../../stack/model-server.ts';
import type { Outcome, Way } from '../backend-outcome.ts';

/** A way without an outcome is not tested. */
export type Row = { fault: Fault } & Partial<Record<Way, Outcome>>;

const answers: Outcome = { what: 'answers', counted: 'reported' };
const counted: Outcome = { what: 'answers', counted: 'estimated' };
const runsOut: Outcome = { what: 'runs out' };
const staysSilent: Outcome = { what: 'runs out', isSilent: true };
const isPaused: Outcome = { what: 'moves on', attempt: 'failed', isPaused: true };
const movesOn: Outcome = { what: 'moves on', attempt: 'failed' };
const isTimedOut: Outcome = { what: 'moves on', attempt: 'failed', isTimed: true };
const isInterrupted: Outcome = { what: 'moves on', attempt: 'interrupted' };
const breaksOff: Outcome = { what: 'breaks off', attempt: 'interrupted' };

const every = (outcome: Outcome) => ({ streamed: outcome, whole: outcome, 'as it came': outcome });
/** Outcomes if a stream fails before its first token, or after it. A whole answer can move on at any time. */
const before = (outcome: Outcome = movesOn, asItCame: Outcome = movesOn) => ({
  ...every(outcome),
  'as it came': asItCame,
});
const after = (outcome: Outcome = movesOn, asItCame: Outcome = movesOn) => ({
  ...before(outcome, asItCame),
  streamed: breaksOff,
});

/** What becomes of a chat completion whose first backend has this fault. */
export const backendFaults: readonly Row[] = [
  ...[401, 402, 403].map((status) => ({ fault: { status }, ...every(isPaused) })),
  ...[408, 500, 502, 503, 504].map((status) => ({ fault: { status }, ...before() })),
  ...[404, 405, 501].map((status) => ({
    fault: { status },
    ...every({ what: 'is elsewhere', attempt: 'not_offered', status }),
  })),
  ...[429, 503, 529].map((status) => ({
    fault: { status, retryAfterSeconds: 60 },
    ...every({ what: 'waits', attempt: 'busy' }),
  })),
  { fault: { status: 429 }, ...every({ what: 'waits', attempt: 'busy' }) },
  { fault: { status: 503, errorMessage: 'The request queue is full.' }, ...every({ what: 'waits', attempt: 'busy' }) },
  { fault: { status: 503, errorMessage: 'Loading model' }, ...every({ what: 'waits', attempt: 'loading' }) },
  ...[302, 307].map((status) => ({ fault: { status, location: 'http://127.0.0.1:9/' }, ...before() })),
  ...[400, 413, 422].map((status) => ({ fault: { status }, ...every({ what: 'is refused', status }) })),
  {
    fault: { status: 500, errorMessage: 'image input is not supported by this model' },
    ...every({ what: 'is refused', status: 500 }),
  },
  ...(['http', 'json', 'html', 'error'] as const).map((garbage) => ({ fault: { garbage }, ...before() })),
  { fault: { resetBeforeHeaders: true }, ...before() },
  { fault: { closeBeforeHeaders: true }, ...before() },
  { fault: { endlessHeaders: true }, ...before() },
  { fault: { hang: true }, ...before(isTimedOut, staysSilent) },
  { fault: { slowHeadersMs: 100 }, ...every(answers) },
  { fault: { slowHeadersMs: 5_000 }, ...before(isTimedOut, answers) },
  { fault: { cutAfterChunks: 0 }, ...before() },
  { fault: { cutAfterChunks: 3 }, ...after() },
  { fault: { endAfterChunks: 0 }, ...before(isInterrupted) },
  { fault: { endAfterChunks: 3 }, ...after(isInterrupted) },
  { fault: { stallAfterChunks: 0 }, ...before(isTimedOut, isTimedOut) },
  { fault: { stallAfterChunks: 3 }, ...every(isTimedOut), streamed: { ...breaksOff, isTimed: true } },
  { fault: { badEvents: true }, ...before(movesOn, answers) },
  { fault: { invalidUtf8: true }, ...before() },
  { fault: derails(0, 'a closed connection'), ...before() },
  { fault: derails(3, 'a closed connection'), ...after() },
  { fault: derails(0, 'an error event'), ...before() },
  { fault: derails(3, 'an error event'), ...after() },
  { fault: derails(0, 'an abort'), ...before(isInterrupted) },
  { fault: derails(3, 'an abort'), ...after(isInterrupted) },
  { fault: derails(0, 'half an event'), ...before() },
  { fault: derails(3, 'half an event'), ...after() },
  { fault: derails(3, 'invalid UTF-8'), ...after() },
  { fault: derails(0, 'a broken chunk'), ...before() },
  { fault: derails(3, 'a broken chunk'), ...after() },
  { fault: derails(0, 'an endless line'), streamed: movesOn, whole: movesOn },
  { fault: derails(3, 'an endless line'), streamed: breaksOff, whole: movesOn },
  // Any byte is a sign of life.
  { fault: derails(0, 'endless comments'), ...every(runsOut) },
  { fault: derails(3, 'endless comments'), ...every(runsOut) },
  { fault: derails(0, 'endless roles'), ...every(runsOut) },
  { fault: { lengthFactor: 0 }, ...before(isInterrupted) },
  { fault: { lengthFactor: 0.5 }, ...after(isInterrupted) },
  // The stream itself says that it is complete, regardless of Content-Length.
  { fault: { lengthFactor: 2 }, ...every(answers), 'as it came': movesOn },
  { fault: { endless: true, chunkMs: 20 }, ...every(runsOut), 'as it came': { what: 'is too large' } },
  { fault: { noDone: true }, ...every(answers) },
  { fault: { noUsage: true }, ...every(counted) },
  { fault: { chunkMs: 5 }, ...every(answers) },
];

function derails(afterChunks: number, into: NonNullable<Fault['derails']>['into']): Fault {
  return { derails: { afterChunks, into } };
}
