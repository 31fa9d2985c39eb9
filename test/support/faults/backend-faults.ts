import type { Fault } from '../../stack/model-server.ts';
import type { Outcome, Way } from '../backend-outcome.ts';

/** A way without an outcome is not tested. */
export type Row = { fault: Fault } & Partial<Record<Way, Outcome>>;

const answers: Outcome = { what: 'answers', counted: 'reported' };
const counted: Outcome = { what: 'answers', counted: 'estimated' };
const runsOut: Outcome = { what: 'runs out' };
const staysSilent: Outcome = { what: 'runs out', isSilent: true };
const movesOn = (attempt: string): Outcome => ({ what: 'moves on', attempt });
const breaksOff = (attempt: string): Outcome => ({ what: 'breaks off', attempt });

const every = (outcome: Outcome) => ({ streamed: outcome, whole: outcome, 'as it came': outcome });
/** Outcomes if a stream fails before its first token, or after it. */
const before = (attempt: string, asItCame = movesOn(attempt)) => ({
  ...every(movesOn(attempt)),
  'as it came': asItCame,
});
const after = (attempt: string, asItCame = movesOn(attempt)) => ({
  ...before(attempt, asItCame),
  streamed: breaksOff(attempt),
});

/** What becomes of a chat completion whose first backend has this fault. */
export const backendFaults: readonly Row[] = [
  ...[401, 403, 404, 408, 429, 500, 502, 503].map((status) => ({ fault: { status }, ...before('status') })),
  ...[429, 503].map((status) => ({
    fault: { status, retryAfterSeconds: 60 },
    ...every({ what: 'moves on', attempt: 'status', pauses: true }),
  })),
  ...[302, 307].map((status) => ({ fault: { status, location: 'http://127.0.0.1:9/' }, ...before('status') })),
  ...[400, 413, 422].map((status) => ({ fault: { status }, ...every({ what: 'is refused' }) })),
  ...(['http', 'json', 'html', 'error'] as const).map((garbage) => ({ fault: { garbage }, ...before('unreadable') })),
  { fault: { resetBeforeHeaders: true }, ...before('connection') },
  { fault: { closeBeforeHeaders: true }, ...before('connection') },
  { fault: { endlessHeaders: true }, ...before('connection') },
  { fault: { hang: true }, ...before('first_token_timeout', staysSilent) },
  { fault: { slowHeadersMs: 100 }, ...every(answers) },
  { fault: { slowHeadersMs: 5_000 }, ...before('first_token_timeout', answers) },
  { fault: { cutAfterChunks: 0 }, ...before('connection') },
  { fault: { cutAfterChunks: 3 }, ...after('connection') },
  { fault: { endAfterChunks: 0 }, ...before('interrupted', movesOn('connection')) },
  { fault: { endAfterChunks: 3 }, ...after('interrupted', movesOn('connection')) },
  { fault: { stallAfterChunks: 0 }, ...before('first_token_timeout', movesOn('idle_timeout')) },
  { fault: { stallAfterChunks: 3 }, ...after('idle_timeout') },
  { fault: { badEvents: true }, ...before('unreadable', answers) },
  { fault: { invalidUtf8: true }, ...before('unreadable') },
  { fault: derails(0, 'a closed connection'), ...before('connection') },
  { fault: derails(3, 'a closed connection'), ...after('connection') },
  { fault: derails(0, 'an error event'), ...before('interrupted', movesOn('unreadable')) },
  { fault: derails(3, 'an error event'), ...after('interrupted', movesOn('unreadable')) },
  { fault: derails(0, 'half an event'), ...before('unreadable') },
  { fault: derails(3, 'half an event'), ...after('unreadable') },
  { fault: derails(3, 'invalid UTF-8'), ...after('unreadable') },
  { fault: derails(0, 'a broken chunk'), ...before('unreadable') },
  { fault: derails(3, 'a broken chunk'), ...after('unreadable') },
  { fault: derails(0, 'an endless line'), streamed: movesOn('unreadable'), whole: movesOn('unreadable') },
  { fault: derails(3, 'an endless line'), streamed: breaksOff('unreadable'), whole: movesOn('unreadable') },
  { fault: derails(0, 'endless comments'), ...before('first_token_timeout', staysSilent) },
  { fault: derails(3, 'endless comments'), ...after('idle_timeout', staysSilent) },
  { fault: derails(0, 'endless roles'), ...before('first_token_timeout', staysSilent) },
  { fault: { lengthFactor: 0 }, ...before('interrupted', movesOn('unreadable')) },
  { fault: { lengthFactor: 0.5 }, ...after('interrupted', movesOn('unreadable')) },
  // The stream itself says that it is complete, regardless of Content-Length.
  { fault: { lengthFactor: 2 }, ...every(answers), 'as it came': movesOn('connection') },
  { fault: { endless: true, chunkMs: 20 }, ...every(runsOut), 'as it came': { what: 'is too large' } },
  { fault: { noDone: true }, ...every(answers) },
  { fault: { noUsage: true }, ...every(counted) },
  { fault: { chunkMs: 5 }, ...every(answers) },
];

function derails(afterChunks: number, into: NonNullable<Fault['derails']>['into']): Fault {
  return { derails: { afterChunks, into } };
}
