import { oncePerObject } from '../concurrency/single-flight.ts';
import {
  bytesToReserve,
  type Claim,
  claimBytes,
  repeatsFree,
  keptBytesMax as usualKeptBytesMax,
} from '../jobs/idempotency.ts';
import type { UsageReport } from '../jobs/usage-outbox.ts';
import { type Redis, redisUnavailable } from '../redis/connections.ts';
import {
  claimKey,
  claimKeysOf,
  countersKey,
  endedRequestKey,
  keptRoomKey,
  keyCountersKey,
  type Lane,
  leaseHolderOf,
  leaseHoldersKey,
  leaseKeysOf,
  partitionOf,
  versionKeysOf,
} from '../redis/keys.ts';
import { loadLua, loadScript } from '../redis/load-lua.ts';
import type { KeyLimits } from '../store/records/key.ts';
import {
  type AdmissionAnswer,
  type AdmitAnswer,
  answerNumbers,
  type CountersAnswer,
  type FillToken,
  type LookAnswer,
  parseAdmission,
} from './admission.ts';

/**
 * Life of a started lease after its last renewal, in milliseconds, and how often its worker renews it (contract.md#n2-heartbeat,
 * decisions.md#leases-by-heartbeat).
 */
export const leaseLifeMs = 60_000;
export const renewLeasesEveryMs = 20_000;

/**
 * Grace period of a lease, in milliseconds, before it is ended: for an admitted lease past `queue_ms`, for a started one past its request's
 * deadline, no matter how often it is renewed. Both leave time for its process to settle it. A line of a batch may be settled a day later:
 * its result is charged even if all workers were unavailable for long.
 */
export const leaseGraceMs = { admitted: 30_000, started: { interactive: 60_000, batch: 86_400_000 } } as const;

/**
 * Life of a lease from its start, if it is not renewed. A line's lease is not renewed: its job outlives every worker, and the next
 * worker continues it.
 */
export const startedLifeMs = { interactive: leaseLifeMs, batch: Number.MAX_SAFE_INTEGER } as const;

/**
 * Life of a lease after its stream was interrupted (contract.md#n5-streaming-mark): its ingress settles it at once, unless the ingress was
 * killed too.
 */
export const interruptedLifeMs = 30_000;

/** How long a request is remembered past its deadline, so that no part of it can run a second time. */
export const endedLifeMs = 3_600_000;

/**
 * How long a released request is remembered. An admission that is executed late is a few minutes late at most. A line of a batch may have a
 * job that a worker takes much later.
 */
export const releasedLifeMs = { interactive: 600_000, batch: endedLifeMs } as const;

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
  reading?: FillToken | undefined;
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
 * `report` becomes the usage record if no process ends the request. `timeouts`: those of the plan file that the
 * request holds; omitted, those in force. `queueMs`: the model's own.
 */
export type Charge = {
  allowance: Allowance;
  reservedTokens: number;
  report: UsageReport;
  timeouts?: LeaseTimeouts | undefined;
  queueMs?: number | undefined;
};

type LeaseTimeouts = { queueMs: number; requestMs: number };

/** The life of a version after its last renewal. Use renews it once half of that has passed. */
const versionLifeMs = 3_600_000;
/** Longer than a call of the store may take, which times out after 5 s. */
const readLifeMs = 15_000;
/** No account has this version: it is used if the version of the account is not known. */
export const noVersion = -1;
/** After every month: the next month of such a key is not taken to be complete. */
const noMonth = '9999-12';

const versionKeys = 'versionKey fillKey changesKey';
const checkArgs = 'version token isRead? request';
const checkConstants = { versionLifeMs, readLifeMs, repeatsFree };

const lookLua = loadLua(new URL('./look.lua', import.meta.url), {
  keys: `${versionKeys} countersKey? keyCountersKey? leasesKey? lostRequestsKey? claimKey?`,
  args: `${checkArgs} bodyMarks? keyId? keyLimitedSince?`,
  constants: checkConstants,
  numbers: answerNumbers,
});
const limitKeys = 'countersKey leasesKey leaseEndsKey lostRequestsKey endedRequestKey leaseHoldersKey outboxKey';
const chargeArgs = 'report reservedTokens leaseHolder isCounted? queueMs';
const limitArgs =
  'requestsPerMinute? tokensPerMinute? requestsPerDay? requestsAtOnce? tokensPerMonth? topUpMonth? topUpTokens? overageMax?';
const keyArgs = 'keyId? keyEndsAt? keyLimitedSince? keyRequestsPerMinute? keyTokensPerMinute? keyTokensPerMonth?';
const admitLua = (constants: Readonly<Record<string, number>>) =>
  loadLua(new URL('./admit.lua', import.meta.url), {
    keys: `${versionKeys} ${limitKeys} keyCountersKey? claimKey? keptAnswersKey? keptBytesKey? keptRoomKey?`,
    args: `${checkArgs} ${chargeArgs} ${limitArgs} bodyMarks? keepBytes? ${keyArgs}`,
    constants: { ...checkConstants, ...constants },
    numbers: answerNumbers,
  });

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
) {
  // The times are constants of the script, so that no call sends them. A lease outlives the start by `graceMs`. A holder is checked once per
  // `leaseLifeMs`.
  const loadAdmit = oncePerObject(({ requestMs }: LeaseTimeouts) => {
    const times = { requestMs, graceMs: leaseGraceMs.admitted, leaseLifeMs, claimLifeMs: requestMs + endedLifeMs };
    return loadScript(redis, admitLua({ ...times, outboxLengthMax, keptBytesMax, claimBytes }));
  });
  const runLook = loadScript(redis, lookLua);

  return {
    /** Admits a request before it is queued: charges it and gives it a lease, or changes nothing. Idempotent by request id. */
    async admit(request: Look, charge: Charge): Promise<AdmitAnswer> {
      const { account, lane = 'interactive', requestId, claim, key } = request;
      const { timeouts: times = timeouts(), queueMs = times.queueMs, allowance, reservedTokens, report } = charge;
      const answer = await ask(
        loadAdmit(times)({
          ...leaseKeysOf(account, lane),
          endedRequestKey: endedRequestKey(account, requestId),
          leaseHoldersKey: leaseHoldersKey(partitionOf(account)),
          ...(claim && { ...claimKeysOf(account, claim.idempotencyKey), keptRoomKey: keptRoomKey(account) }),
          ...checkOf(request),
          ...allowance,
          report: JSON.stringify(report),
          reservedTokens,
          leaseHolder: leaseHolderOf({ account, lane }),
          isCounted: lane === 'interactive' ? 1 : undefined,
          queueMs,
          topUpMonth: allowance.topUp?.month,
          topUpTokens: allowance.topUp?.tokens,
          overageMax: allowance.overageEnabled ? allowance.overageTokensPerMonth : 0,
          keepBytes: claim && bytesToReserve(account, claim),
          keyEndsAt: key?.endsAt,
          keyRequestsPerMinute: key?.limits?.requestsPerMinute,
          keyTokensPerMinute: key?.limits?.tokensPerMinute,
          keyTokensPerMonth: key?.limits?.tokensPerMonth,
        }),
      );
      if (answer.outcome === 'counters' || answer.outcome === 'current') throw unexpected(answer);
      return answer;
    },
    /**
     * Checks the caller as `admit` does, and returns the account's counters. With a claim, for a request that is refused for another
     * reason: the first repeats find what has claimed their key, and each repeat is counted.
     */
    async readCounters(request: Look): Promise<CountersAnswer> {
      const { account, lane, claim } = request;
      const claimed = claim && { ...leaseKeysOf(account, lane), claimKey: claimKey(account, claim.idempotencyKey) };
      const answer = await ask(runLook({ countersKey: countersKey(account), ...claimed, ...checkOf(request) }));
      switch (answer.outcome) {
        case 'counters':
        case 'repeated':
        case 'stale':
        case 'cold':
          return answer;
        default:
          throw unexpected(answer);
      }
    },
    /** Checks only the caller. */
    async look(request: Look): Promise<LookAnswer> {
      const answer = await ask(runLook(checkOf(request)));
      if (answer.outcome === 'current' || answer.outcome === 'stale') return answer;
      throw unexpected(answer);
    },
  };
}

/** Each call is one round trip, and fails with `SERVICE_UNAVAILABLE`. */
export type Admit = ReturnType<typeof createAdmit>;

async function ask(running: Promise<unknown>): Promise<AdmissionAnswer> {
  return parseAdmission(await redisUnavailable(running));
}

/** What each script needs to know of the caller, its key, and its claim. */
function checkOf({ account, version = noVersion, reading, requestId, claim, key }: Look) {
  const limits = key?.limits;
  return {
    ...versionKeysOf(account),
    version,
    isRead: reading && 1,
    token: reading?.token ?? requestId,
    request: requestId,
    bodyMarks: claim?.bodyMarks.join(' '),
    keyCountersKey: key && limits && keyCountersKey(account, key.id),
    keyId: limits && key?.id,
    keyLimitedSince: limits?.tokensPerMonth === undefined ? undefined : (limits.monthLimitedSince ?? noMonth),
  };
}

function unexpected({ outcome }: AdmissionAnswer): Error {
  return new Error(`unexpected answer "${outcome}" from the admission script`);
}
