import type { FleetView } from '../../routes/fleet.ts';
import type { UsageReport } from '../../usage/usage-report.ts';
import { daySeconds, hourSeconds, stepAt } from '../charts/steps.ts';
import { formatCount } from '../page/format.ts';
import {
  type Backend,
  type CallFailure,
  causeWords,
  type Health,
  has,
  isAway,
  listed,
  runbookOf,
} from './backend-state.ts';

type Pool = FleetView['pools'][number];

/** Why, and of which backends; none if it is not about backends. */
type Cause = { backends: readonly string[]; words: string; addresses: readonly string[] };

/**
 * Something that clients notice, or would without other backends. `key` stays the same while only a number changes. `since`: seconds since
 * 1970, undefined if it is not known. `models`: those whose requests fail; none if other backends answer. `request`: one that has failed by
 * it. `runbook`: a page below `runbooks/`.
 */
export type Incident = {
  key: string;
  tone: 'bad' | 'warning';
  title: string;
  since: number | undefined;
  causes: readonly Cause[];
  models: readonly string[];
  request?: string | undefined;
  runbook: string;
};

/** What is wrong now, worst first: one incident for each cause, and not for each backend and model. */
export function incidentsIn({ pools, backends }: FleetView): Incident[] {
  const served = pools.filter(({ workers }) => workers > 0).flatMap(({ models }) => models.map(({ model }) => model));
  const outages = mergedOutages(served.flatMap((model) => outageOf(model, backends) ?? []));
  const named = new Set(outages.flatMap(({ causes }) => causes.flatMap((cause) => cause.backends)));
  return [
    ...pools.flatMap(withoutWorkers),
    ...outages,
    ...pools.flatMap(({ models }) => models.flatMap(fullQueue)),
    ...backends.filter(({ backend }) => !named.has(backend)).flatMap((backend) => notCalled(backend) ?? []),
  ].toSorted((one, other) => Number(one.tone === 'warning') - Number(other.tone === 'warning'));
}

function withoutWorkers({ pool, workers, models }: Pool): Incident[] {
  if (workers > 0 || models.length === 0) return [];
  const names = models.map(({ model }) => model);
  const words = `the pool ${pool} has no worker: requests wait, and then get 503`;
  const causes = [{ backends: [], words, addresses: [] }];
  const title = `${listed(names)} cannot be answered`;
  return [
    {
      key: `pool ${pool}`,
      tone: 'bad',
      title,
      since: undefined,
      causes,
      models: names,
      runbook: 'pool-without-workers',
    },
  ];
}

function fullQueue({ model, queued: { interactive }, queue_max: max }: Pool['models'][number]): Incident[] {
  if (interactive < max) return [];
  const words = `${formatCount(interactive)} of ${formatCount(max)} requests wait, and further ones get 503`;
  const causes = [{ backends: [], words, addresses: [] }];
  const title = `The queue of ${model} is full`;
  return [
    { key: `queue ${model}`, tone: 'bad', title, since: undefined, causes, models: [model], runbook: 'queue-full' },
  ];
}

type Away = { backend: Backend; health: Health };

function outageOf(model: string, backends: readonly Backend[]): Incident | undefined {
  const all = backends.flatMap((backend): Away[] => {
    const health = backend.models.find((each) => each.model === model);
    return health === undefined ? [] : [{ backend, health }];
  });
  if (all.length === 0 || !all.every(({ backend, health }) => isAway(backend, health))) return undefined;
  return {
    key: '',
    tone: 'bad',
    title: '',
    // It could be answered until the last one was away, so each must be known.
    since: latestOf(all.map(awaySince)),
    causes: causesOf(all),
    models: [model],
    request: requestOf(all),
    runbook: 'model-down',
  };
}

/** Models that fail for the same causes are one incident. */
function mergedOutages(outages: readonly Incident[]): Incident[] {
  const bySameCauses = Map.groupBy(outages, ({ causes }) =>
    causes.map(({ backends, words }) => `${backends.join()} ${words}`).join('; '),
  );
  return [...bySameCauses.values()].flatMap((same) => {
    const [first] = same;
    if (first === undefined) return [];
    const models = same.flatMap((each) => each.models);
    const since = same.flatMap((each) => each.since ?? []);
    return [
      {
        ...first,
        key: `models ${models.join()}`,
        title: `${listed(models)} cannot be answered`,
        models,
        since: since.length === 0 ? undefined : Math.min(...since),
      },
    ];
  });
}

/** A backend that is not called although it should be, for models that others still answer. */
function notCalled(backend: Backend): Incident | undefined {
  if (backend.paused !== null) return undefined;
  const away = backend.models.flatMap((health): Away[] => (isFailing(backend, health) ? [{ backend, health }] : []));
  const [first] = away;
  if (first === undefined) return undefined;
  const { backend: name } = backend;
  const models = away.map(({ health }) => health.model);
  const isAll = models.length === backend.models.length;
  const title = has(backend, 'account')
    ? `${name} refuses the account of this service`
    : `${name} is not called${isAll ? '' : ` for ${listed(models)}`}${partOfWorkers(away)}`;
  const since = away.flatMap((each) => awaySince(each) ?? []);
  return {
    key: `backend ${name}`,
    tone: 'warning',
    title,
    since: since.length === 0 ? undefined : Math.min(...since),
    causes: causesOf(away),
    models: [],
    request: requestOf(away),
    runbook: runbookOf(backend, first.health),
  };
}

function isFailing(backend: Backend, { breakers }: Health): boolean {
  return has(backend, 'account') || breakers.open + breakers['half-open'] > 0;
}

/** Workers that still call it, if there are any. */
function partOfWorkers(away: readonly Away[]): string {
  const of = Math.max(...away.map(({ health: { breakers } }) => breakers.open + breakers['half-open']));
  const all = Math.max(...away.map(({ health: { breakers: each } }) => each.open + each['half-open'] + each.closed));
  return of > 0 && of < all ? ` by ${of} of ${all} workers` : '';
}

/** Not known of a backend that refuses the account: its last failure is the latest one, and not the first. */
function awaySince({ backend: { paused }, health }: Away): number | undefined {
  const at = paused?.since ?? health.failing_since;
  return at == null ? undefined : Date.parse(at) / 1_000;
}

function latestOf(times: readonly (number | undefined)[]): number | undefined {
  const known = times.filter((time) => time !== undefined);
  return known.length < times.length ? undefined : Math.max(...known);
}

/** Backends that fail in the same way share a cause. */
function causesOf(away: readonly Away[]): Cause[] {
  const byWords = Map.groupBy(away, wordsOf);
  return [...byWords].map(([words, same]) => ({
    backends: [...new Set(same.map(({ backend }) => backend.backend))],
    words,
    addresses: [...new Set(same.flatMap((each) => failureOf(each)?.address ?? []))],
  }));
}

function wordsOf(away: Away): string {
  const { backend } = away;
  if (backend.paused !== null) return `paused by ${backend.paused.by_name ?? backend.paused.by}`;
  const failure = failureOf(away);
  if (failure !== undefined) return causeWords(failure);
  return has(backend, 'account') ? 'refuses the account, or a worker has no key for it' : 'its calls failed';
}

/** The last failure for this model. A refusal of the account is of all models of the backend. */
function failureOf({ backend, health }: Away): CallFailure | undefined {
  return health.last_failure ?? (has(backend, 'account') ? lastOf(backend.models) : undefined);
}

function lastOf(models: readonly Health[]): CallFailure | undefined {
  const failures = models.flatMap(({ last_failure: failure }) => failure ?? []);
  return failures.toSorted((one, other) => other.at.localeCompare(one.at))[0];
}

function requestOf(away: readonly Away[]): string | undefined {
  return lastOf(away.map(({ health }) => health))?.request;
}

/** Codes of requests that the service could not answer. A stream that was interrupted had begun with status 200. */
const outageCodes = ['UPSTREAMS_EXHAUSTED', 'SERVICE_UNAVAILABLE', 'UPSTREAM_INTERRUPTED', 'DEADLINE_EXCEEDED'];

export type FailedCount = {
  requests: number;
  /** Those with the most first. */
  accounts: readonly { account: string; name?: string | undefined }[];
};

/** How many requests of these models the service could not answer since this hour, and whose. `report`: by account, hour and model. */
export function failedSince({ data }: Pick<UsageReport, 'data'>, models: readonly string[], hour: number): FailedCount {
  const rows = data.filter((row) => models.includes(row.model ?? '') && Date.parse(row.hour ?? '') / 1_000 >= hour);
  const counted = rows.map((row) => ({
    account: row.account ?? '',
    name: row.name,
    count: outageCodes.reduce((sum, code) => sum + (row.errors?.[code] ?? 0), 0),
  }));
  const byAccount = Map.groupBy(
    counted.filter(({ count }) => count > 0),
    ({ account }) => account,
  );
  const sums = [...byAccount].map(([account, all]) => ({
    account,
    name: all[0]?.name,
    requests: all.reduce((sum, { count }) => sum + count, 0),
  }));
  return {
    requests: sums.reduce((sum, { requests }) => sum + requests, 0),
    accounts: sums.toSorted((one, other) => other.requests - one.requests).map(({ requests: _, ...each }) => each),
  };
}

/** The hours that the numbers of incidents need, at most a week. */
export function hoursOf(incidents: readonly Pick<Incident, 'since'>[], now: number): { start: number; end: number } {
  const end = stepAt(now, hourSeconds);
  const starts = incidents.map(({ since = now }) => stepAt(since, hourSeconds));
  return { start: Math.max(end - weekSeconds, Math.min(end, ...starts)), end };
}

const weekSeconds = 7 * daySeconds;
