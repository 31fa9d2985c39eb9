import type { FleetView } from '../../routes/fleet.ts';
import type { FleetHistory } from '../../routes/fleet-history.ts';
import type { Tone } from '../page/icons.ts';

export type Backend = FleetView['backends'][number];
export type Health = Backend['models'][number];
/** What a backend has done for a model in the last minutes. */
export type RecentCalls = FleetHistory['total']['backends'][number];
export type CallFailure = NonNullable<Health['last_failure']>;

const failedShareMax = 0.1;

/** How a backend stands for a model, in words. `recent`: its calls of the last minutes, undefined if there were none. */
export function backendState(backend: Backend, health: Health, recent: RecentCalls | undefined): StateInWords {
  const { paused } = backend;
  if (paused !== null) return { state: `paused by ${paused.by_name ?? nameOf(paused.by)}`, tone: 'warning' };
  const { open, 'half-open': halfOpen, closed } = health.breakers;
  const all = open + halfOpen + closed;
  if (has(backend, 'account')) return { state: 'paused after failures', tone: 'bad' };
  if (open > 0) return { state: `paused after failures${partOf(open + halfOpen, all)}`, tone: 'bad' };
  if (halfOpen > 0) return { state: `being tested${partOf(halfOpen, all)}`, tone: 'warning' };
  if (has(backend, 'loading')) return { state: 'loading', tone: 'warning' };
  if (has(backend, 'busy') || isFull(backend)) return { state: 'busy', tone: 'moving' };
  if ((recent?.answered ?? 0) + (recent?.failed ?? 0) + health.answered + health.failed === 0)
    return { state: 'idle', tone: 'neutral' };
  return { state: 'answers', tone: failsOften(health) ? 'warning' : 'good' };
}

type StateInWords = { state: string; tone: Tone };

/** Each worker decides on its own. */
function partOf(count: number, all: number): string {
  return count === all ? '' : ` in ${count} of ${all} workers`;
}

function nameOf(account: string): string {
  return account.replace(/^user:/, '');
}

export function has({ pauses }: Pick<Backend, 'pauses'>, kind: Backend['pauses'][number]['kind']): boolean {
  return pauses.some((pause) => pause.kind === kind);
}

/** Whether all its calls at once are taken. A limit of each worker does not say so. */
export function isFull({ limit, calls, per_worker: isPerWorker }: Backend): boolean {
  return limit !== null && !isPerWorker && calls >= limit;
}

export function failsOften({ answered, failed }: Pick<Health, 'answered' | 'failed'>): boolean {
  return failed > 0 && failed / (answered + failed) > failedShareMax;
}

/** Whether no worker calls it for this model, except to test it. */
export function isAway(backend: Backend, { breakers }: Health): boolean {
  if (backend.paused !== null || has(backend, 'account')) return true;
  return breakers.closed === 0 && breakers.open + breakers['half-open'] > 0;
}

/** What an operator would look at first. */
const questions: Readonly<Record<number, string>> = {
  401: 'is its key valid?',
  402: 'is its account paid?',
  403: 'may its key do this?',
  404: 'is its address right?',
};

/** `connection refused`, `HTTP 401, is its key valid?` */
export function causeWords({ cause, outcome, status }: CallFailure): string {
  const question = questions[status ?? 0];
  return `${cause ?? outcome.replaceAll('_', ' ')}${question === undefined ? '' : `, ${question}`}`;
}

/** `31 of 64 slots`. */
export function slotsOf({ calls, limit, per_worker: isPerWorker }: Backend): string {
  if (limit === null) return `${calls} ${calls === 1 ? 'call' : 'calls'}, no limit`;
  return isPerWorker ? `${calls} calls, ${limit} for each worker` : `${calls} of ${limit} slots`;
}

/** The page of the documentation about this state, below `runbooks/`. */
export function runbookOf(backend: Backend, health: Health): string {
  if (has(backend, 'account')) return 'backend-account-refused';
  if (has(backend, 'loading')) return 'backend-loading';
  return health.breakers.open + health.breakers['half-open'] > 0 ? 'backend-not-called' : 'backend-failing';
}

/** `onprem-a, onprem-b and cloud`. */
export function listed(names: readonly string[]): string {
  return list.format(names);
}

const list = new Intl.ListFormat('en-GB', { type: 'conjunction' });
