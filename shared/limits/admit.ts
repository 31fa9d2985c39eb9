import {
  bytesToReserve,
  type Claim,
  claimBytes,
  repeatsFree,
  keptBytesMax as usualKeptBytesMax,
} from '../idempotency/claim.ts';
import type { UsageReport } from '../jobs/usage-outbox.ts';
import type { Lane } from '../lane.ts';
import { oncePerObject } from '../once-per-object.ts';
import { loadScript, type Redis, redisUnavailable } from '../redis/connections.ts';
import {
  changesKey,
  claimKey,
  claimKeysOf,
  countersKey,
  endedRequestKey,
  fillKey,
  keptRoomKey,
  keyCountersKey,
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
import type { KeyLimits } from '../store/accounts/key.ts';
import {
  type AdmissionAnswer,
  type Admitted,
  type CountersAnswer,
  type Looked,
  parseAdmission,
  type Reading,
  type Repeated,
} from './admission.ts';
import { endedLifeMs, leaseGraceMs, leaseLifeMs } from './lease-life.ts';

/** The further key of a caller: until when it is valid, in milliseconds of Redis's clock, and its own limits. Omitted if there is none. */
export type LookKey = { id: string; endsAt?: number | undefined; limits?: KeyLimits | undefined };

/**
 * `version` is that of the caller that was read, omitted if there is none. `claim`: if the request has an idempotency key. `key`: if the
 * caller used a further key that has an end or limits.
 */
export type Look = {
  account: string;
  requestId: string;
  version?: number | undefined;
  reading?: Reading | undefined;
  lane?: Lane | undefined;
  claim?: Claim | undefined;
  key?: LookKey | undefined;
};

/** What a plan and its account's settings allow in a lane. An omitted limit means unlimited. */
export type Allowance = {
  requestsPerMinute?: number | undefined;
  tokensPerMinute?: number | undefined;
  requestsPerDay?: number | undefined;
  requestsAtOnce?: number | undefined;
  tokensPerMonth?: number | undefined;
  topUp?: { month: string; tokens: number } | undefined;
  overageEnabled: boolean;
  /** The most overage in a month, if it is enabled. */
  overageTokensPerMonth?: number | undefined;
};

/**
 * `tokens` are reserved; `report` becomes the usage record if no process ends the request. `timeouts`: those of the plan file that the
 * request holds; omitted, those in force. `queueMs`: the model's own.
 */
export type Charge = {
  allowance: Allowance;
  tokens: number;
  report: UsageReport;
  timeouts?: LeaseTimeouts | undefined;
  queueMs?: number | undefined;
};

type LeaseTimeouts = { queueMs: number; requestMs: number };

/** Each call is one round trip, and fails with `SERVICE_UNAVAILABLE`. */
export interface Admit {
  /** Admits a request before it is queued: charges it and gives it a lease, or changes nothing. Idempotent by request id. */
  admit(request: Look, charge: Charge): Promise<Admitted>;
  /** Checks the caller as `admit` does, and returns the account's counters. */
  readCounters(request: Look): Promise<CountersAnswer>;
  /** Finds the claim of a request that is refused for another reason, unless it is one of the first repeats. Counts the repeat. */
  findClaim(request: Look & { claim: Claim }): Promise<CountersAnswer | Repeated>;
  /** Checks only the caller. */
  look(request: Look): Promise<Looked>;
}

const versionLifeMs = 3_600_000;
/** Longer than a call of the store may take, which times out after 5 s. */
const readLifeMs = 15_000;
/** No account has this version: it is used if the version of the account is not known. */
export const noVersion = -1;
const noLimit = -1;
const noOverage = 0;
const never = -1;
/** After every month: the next month of such a key is not taken to be complete. */
const noMonth = '9999-12';
const noTopUp = { month: '', tokens: 0 };

/**
 * Admits requests with one script (decisions.md#one-script-decides-all-limits). A call that is executed twice
 * changes nothing more, except that a repeat of a claim counts again (contract.md#m3-idempotent-scripts).
 */
export function createAdmit(
  redis: Redis,
  {
    timeouts,
    outboxLengthMax,
    keptBytesMax = usualKeptBytesMax,
  }: { timeouts: () => LeaseTimeouts; outboxLengthMax: number; keptBytesMax?: number },
): Admit {
  const versionTimes = { versionLifeMs, readLifeMs };
  const load = (name: string, script: string, { keys, constants = {} }: { keys?: number; constants?: Constants }) => {
    const lua = loadLua(new URL(`./${script}.lua`, import.meta.url), { ...versionTimes, ...constants });
    return loadScript(redis, { name, lua, ...(keys !== undefined && { numberOfKeys: keys }) });
  };
  // The times are constants of the script, so that no call sends them.
  const loadAdmit = oncePerObject(({ requestMs }: LeaseTimeouts) => {
    const claimLifeMs = requestMs + endedLifeMs;
    const leaseTimes = { requestMs, graceMs: leaseGraceMs.admitted, leaseLifeMs, claimLifeMs };
    const claims = { repeatsFree, keptBytesMax, claimBytes };
    return load('svcAdmit', 'admit', { constants: { ...leaseTimes, outboxLengthMax, ...claims } });
  });
  const runReadCounters = load('svcReadCounters', 'read-counters', {});
  const runFindClaim = load('svcFindClaim', 'find-claim', { constants: { repeatsFree } });
  const runLook = load('svcLook', 'look', { keys: 3 });

  return {
    async admit(request, charge) {
      const { account, lane, requestId, claim } = request;
      const partition = partitionOf(account);
      const keys = [
        ...[...versionKeysOf(account), countersKey(account), leasesKey(account, lane), leaseEndsKey(account, lane)],
        ...[
          lostRequestsKey(account),
          endedRequestKey(account, requestId),
          leaseHoldersKey(partition),
          outboxKey(partition),
        ],
        ...(claim === undefined ? [] : [...claimKeysOf(account, claim.idempotencyKey), keptRoomKey(account)]),
        ...limitedKeyOf(request),
      ];
      const { timeouts: times = timeouts(), queueMs = times.queueMs } = charge;
      const args = [...versionArgs(request), ...chargeArgs(request, { ...charge, queueMs })];
      const answer = await ask(loadAdmit(times)(keys, args));
      if (answer.outcome === 'counters' || answer.outcome === 'current') throw unexpected(answer);
      return answer;
    },
    async readCounters(request) {
      const { account } = request;
      const keys = [...versionKeysOf(account), countersKey(account), ...limitedKeyOf(request)];
      const answer = await ask(runReadCounters(keys, [...versionArgs(request), ...keyMonthArgs(request)]));
      if (answer.outcome === 'counters' || answer.outcome === 'stale' || answer.outcome === 'cold') return answer;
      throw unexpected(answer);
    },
    async findClaim(request) {
      const { account, lane, requestId, claim } = request;
      const keys = [
        ...[...versionKeysOf(account), countersKey(account), leasesKey(account, lane)],
        ...[lostRequestsKey(account), claimKey(account, claim.idempotencyKey), ...limitedKeyOf(request)],
      ];
      const asked = [requestId, claim.bodyMarks.join(' '), ...keyMonthArgs(request)];
      const answer = await ask(runFindClaim(keys, [...versionArgs(request), ...asked]));
      if (answer.outcome === 'repeated') return answer;
      if (answer.outcome === 'counters' || answer.outcome === 'stale' || answer.outcome === 'cold') return answer;
      throw unexpected(answer);
    },
    async look(request) {
      const answer = await ask(runLook(versionKeysOf(request.account), versionArgs(request)));
      if (answer.outcome === 'current' || answer.outcome === 'stale') return answer;
      throw unexpected(answer);
    },
  };
}

type Constants = Readonly<Record<string, number>>;

async function ask(running: Promise<unknown>): Promise<AdmissionAnswer> {
  return parseAdmission(await redisUnavailable(running));
}

function versionKeysOf(account: string): string[] {
  return [versionKey(account), fillKey(account), changesKey(account)];
}

function claimArgs(account: string, claim: Claim | undefined): (string | number)[] {
  return claim === undefined ? ['', ''] : [claim.bodyMarks.join(' '), bytesToReserve(account, claim)];
}

function versionArgs({ version = noVersion, reading, requestId }: Look): (string | number)[] {
  return reading === undefined ? [version, 'known', requestId] : [version, 'read', reading.token];
}

function limitedKeyOf({ account, key }: Look): string[] {
  return key?.limits === undefined ? [] : [keyCountersKey(account, key.id)];
}

function keyMonthArgs({ key }: Look): (string | number)[] {
  return key?.limits === undefined ? [] : [key.id, ...monthArgs(key.limits)];
}

function monthArgs({ tokensPerMonth = noLimit, monthLimitedSince = noMonth }: KeyLimits): (string | number)[] {
  return [tokensPerMonth, monthLimitedSince];
}

/** A key has arguments only if there is something to check. */
function keyArgs({ id, endsAt, limits }: LookKey): (string | number)[] {
  const { requestsPerMinute = noLimit, tokensPerMinute = noLimit } = limits ?? {};
  const limited = limits === undefined ? [] : [requestsPerMinute, tokensPerMinute, ...monthArgs(limits)];
  return [id, endsAt ?? never, ...limited];
}

function chargeArgs(look: Look, { allowance, tokens, report, queueMs }: Charge & { queueMs: number }) {
  const { account, requestId, lane = 'interactive', claim, key } = look;
  const { topUp = noTopUp } = allowance;
  return [
    requestId,
    JSON.stringify(JSON.stringify(report)), // a JSON string, which the script writes into the lease as it is
    tokens,
    allowance.requestsPerMinute ?? noLimit,
    allowance.tokensPerMinute ?? noLimit,
    allowance.requestsPerDay ?? noLimit,
    allowance.requestsAtOnce ?? noLimit,
    allowance.tokensPerMonth ?? noLimit,
    topUp.month,
    topUp.tokens,
    allowance.overageEnabled ? (allowance.overageTokensPerMonth ?? noLimit) : noOverage,
    leaseHolderOf({ account, lane }),
    lane === 'interactive' ? 1 : 0,
    queueMs,
    ...(claim === undefined && key === undefined ? [] : claimArgs(account, claim)),
    ...(key === undefined ? [] : keyArgs(key)),
  ];
}

function unexpected({ outcome }: AdmissionAnswer): Error {
  return new Error(`unexpected answer "${outcome}" from the admission script`);
}
