import type { Redis } from 'ioredis';
import type { Lane } from '../lane.ts';
import { loadScript, redisUnavailable } from '../redis/connections.ts';
import {
  changesKey,
  countersKey,
  endedRequestKey,
  fillKey,
  leaseEndsKey,
  leaseHolderOf,
  leaseHoldersKey,
  leasesKey,
  lostRequestsKey,
  outboxKey,
  partitionOf,
  versionKey,
} from '../redis/keys.ts';
import { loadLua } from '../redis/load-lua.ts';
import { intOf, wordOf, wordsOf } from '../redis/read-answer.ts';
import { leaseGraceMs, leaseLifeMs } from './lease-life.ts';

/**
 * What counts against an account, by Redis's clock (`now`, milliseconds): the tokens of the month (`YYYY-MM`) that are used,
 * reserved by requests in flight, and used as overage; requests and tokens of the last minute, which will all have left in
 * `resetMs`; the requests of the day (UTC).
 */
export type LimitCounters = {
  now: number;
  month: string;
  used: number;
  reserved: number;
  overageUsed: number;
  lastMinute: { requests: number; tokens: number; resetMs: number };
  dayRequests: number;
};

const limits = ['quota', 'requests', 'tokens', 'day', 'concurrency'] as const;

/** Which limit a request would pass; `concurrency` is that of requests at once. */
export type Limit = (typeof limits)[number];

/**
 * Milliseconds of Redis's clock: a job is first started by `startBy` or not at all, and over by `deadline`. `overage`: the
 * month's allowance was spent when it was admitted.
 */
export type Admission = { admittedAt: number; startBy: number; deadline: number; overage: boolean };

/** What a caller was read under, after it was told to be read again. */
export type Reading = { token: string };

/** `version` is that of the caller at hand, left out where there is none. */
export type Look = {
  account: string;
  requestId: string;
  version?: number | undefined;
  reading?: Reading | undefined;
  lane?: Lane | undefined;
};

/** What a plan and its account's settings allow in a lane; a limit left out is no limit. */
export type Allowance = {
  requestsPerMinute?: number | undefined;
  tokensPerMinute?: number | undefined;
  requestsPerDay?: number | undefined;
  requestsAtOnce?: number | undefined;
  tokensPerMonth?: number | undefined;
  topUp?: { month: string; tokens: number } | undefined;
  overageEnabled: boolean;
};

/** `tokens` are reserved; `report` is what the usage record says should nobody end the request, as JSON. */
export type Charge = { allowance: Allowance; tokens: number; report: string };

/** `stale`: the caller at hand may be overtaken; read it from the store, then ask again with this. */
type Stale = { outcome: 'stale'; reading: Reading };
/** `cold`: this month is not counted in Redis; seed it, then ask again. */
type Cold = { outcome: 'cold'; month: string };

/** `now` is Redis's time, in milliseconds. */
export type Looked = Stale | { outcome: 'current'; now: number };
export type CountersAnswer = Stale | Cold | { outcome: 'counters'; counters: LimitCounters };
/**
 * `full`: too much usage waits for the store. `ended`: the request was ended before it could be admitted. `inFlight`: how many
 * requests the account has in the lane, this one included.
 */
export type Admitted =
  | Stale
  | Cold
  | { outcome: 'ended' }
  | { outcome: 'full'; counters: LimitCounters }
  | { outcome: 'refused'; limit: Limit; waitMs: number; counters: LimitCounters }
  | { outcome: 'admitted'; admission: Admission; counters: LimitCounters; inFlight: number };

/** Each is one round trip, and fails with `SERVICE_UNAVAILABLE`. */
export interface Admit {
  /** The one between a request and its queue: charges it, and gives it a lease, or changes nothing. Idempotent by request id. */
  admit(request: Look, charge: Charge): Promise<Admitted>;
  /** Checks the caller as `admit` does, and tells the account's counters. */
  readCounters(request: Look): Promise<CountersAnswer>;
  /** Checks the caller, and nothing else. */
  look(request: Look): Promise<Looked>;
}

const versionLifeMs = 3_600_000;
/** Longer than a call of the store may take, which gives up after 5 s. */
const readLifeMs = 15_000;
const noVersion = -1;
const noLimit = -1;
const noTopUp = { month: '', tokens: 0 };
/** A Redis that is out of memory takes no more requests, but keys can still be revoked: their owner has to be looked at. */
const lookFlags = '#!lua flags=allow-oom';

/** Admission by one script; a call that is repeated changes nothing that the first has not. */
export function createAdmit(
  redis: Redis,
  { timeouts, outboxLengthMax }: { timeouts: { queueMs: number; requestMs: number }; outboxLengthMax: number },
): Admit {
  const { queueMs, requestMs } = timeouts;
  const times = { versionLifeMs, readLifeMs, queueMs, requestMs, graceMs: leaseGraceMs.admitted, leaseLifeMs };
  const constants = { ...times, outboxLengthMax };
  const load = (mode: string) => loadLua(new URL('./admit.lua', import.meta.url), { mode, ...constants });
  const loadLook = (mode: string) => load(mode).replace('#!lua', lookFlags);
  const runAdmit = loadScript(redis, { name: 'svcAdmit', lua: load('admit'), numberOfKeys: 10 });
  const runReadCounters = loadScript(redis, {
    name: 'svcReadCounters',
    lua: loadLook('readCounters'),
    numberOfKeys: 10,
  });
  const runLook = loadScript(redis, { name: 'svcLook', lua: loadLook('look'), numberOfKeys: 10 });

  async function call(run: typeof runAdmit, request: Look, charge: readonly (string | number)[] = []) {
    const { account, requestId, version = noVersion, reading, lane } = request;
    const partition = partitionOf(account);
    const keys = [
      versionKey(account),
      fillKey(account),
      changesKey(account),
      countersKey(account),
      leasesKey(account, lane),
      leaseEndsKey(account, lane),
      lostRequestsKey(account),
      endedRequestKey(account, requestId),
      leaseHoldersKey(partition),
      outboxKey(partition),
    ];
    const [how, token] = reading === undefined ? ['known', requestId] : ['read', reading.token];
    return readAnswer(await redisUnavailable(run(keys, [account, version, how, token, ...charge])));
  }

  return {
    async admit(request, charge) {
      const answer = await call(runAdmit, request, chargeArgs(request, charge));
      if (answer.outcome === 'counters' || answer.outcome === 'current') throw unexpected(answer);
      return answer;
    },
    async readCounters(request) {
      const answer = await call(runReadCounters, request);
      if (answer.outcome === 'counters' || answer.outcome === 'stale' || answer.outcome === 'cold') return answer;
      throw unexpected(answer);
    },
    async look(request) {
      const answer = await call(runLook, request);
      if (answer.outcome === 'current' || answer.outcome === 'stale') return answer;
      throw unexpected(answer);
    },
  };
}

function chargeArgs({ account, requestId, lane = 'interactive' }: Look, charge: Charge): (string | number)[] {
  const { allowance, tokens, report } = charge;
  const { topUp = noTopUp } = allowance;
  return [
    requestId,
    JSON.stringify(report),
    tokens,
    allowance.requestsPerMinute ?? noLimit,
    allowance.tokensPerMinute ?? noLimit,
    allowance.requestsPerDay ?? noLimit,
    allowance.requestsAtOnce ?? noLimit,
    allowance.tokensPerMonth ?? noLimit,
    topUp.month,
    topUp.tokens,
    allowance.overageEnabled ? 1 : 0,
    leaseHolderOf({ account, lane }),
    lane === 'interactive' ? 1 : 0,
  ];
}

type Answer = Admitted | CountersAnswer | Looked;

/** Written out, because this is read for each request: a schema takes many times as long. */
function readAnswer(answer: unknown): Answer {
  const [outcome, ...words] = wordsOf(answer);
  const [one, two, three, four] = words;
  switch (outcome) {
    case 'admitted': {
      const admission = {
        admittedAt: intOf(one),
        startBy: intOf(two),
        deadline: intOf(three),
        overage: intOf(four) === 1,
      };
      return { outcome, admission, counters: countersOf(words.slice(4)), inFlight: intOf(words.at(-1)) };
    }
    case 'refused':
      return { outcome, limit: limitOf(one), waitMs: intOf(two), counters: countersOf(words.slice(2)) };
    case 'counters':
    case 'full':
      return { outcome, counters: countersOf(words) };
    case 'stale':
      return { outcome, reading: { token: words.join(' ') } }; // an id, whatever it holds
    case 'cold':
      return { outcome, month: wordOf(one) };
    case 'current':
      return { outcome, now: intOf(one) };
    case 'ended':
      return { outcome };
    default:
      throw new Error('the admission script gave an answer that is not known');
  }
}

function countersOf(words: readonly string[]): LimitCounters {
  const [now, month, used, reserved, overageUsed, requests, tokens, resetMs, dayRequests] = words;
  return {
    now: intOf(now),
    month: wordOf(month),
    used: intOf(used),
    reserved: intOf(reserved),
    overageUsed: intOf(overageUsed),
    lastMinute: { requests: intOf(requests), tokens: intOf(tokens), resetMs: intOf(resetMs) },
    dayRequests: intOf(dayRequests),
  };
}

function limitOf(value: unknown): Limit {
  const limit = limits.find((limit) => limit === value);
  if (limit === undefined) throw new Error('the admission script named a limit that is not known');
  return limit;
}

function unexpected({ outcome }: Answer): Error {
  return new Error(`the admission script answered "${outcome}" where that has no meaning`);
}
