import { LRUCache } from 'lru-cache';
import {
  ApiError,
  keyQuotaExceeded,
  planLimit,
  quotaExceeded,
  type SpentQuota,
  temporarilyUnavailable,
} from '../../../shared/errors.ts';
import { lostReport } from '../../../shared/jobs/usage-outbox.ts';
import type { Admission, LimitCounters } from '../../../shared/limits/admission.ts';
import type { Admit, LookKey } from '../../../shared/limits/admit.ts';
import type { AskLimits } from '../../../shared/limits/ask-limits.ts';
import { batchAllowanceOf, isUsedUp, overageMaxOf, quotaOf } from '../../../shared/limits/quota.ts';
import type { PlanFile } from '../../../shared/plan-file/plan-file.ts';
import { partitionOf } from '../../../shared/redis/keys.ts';
import type { Account, Caller } from '../../../shared/store/records/account.ts';
import { type KeyScope, refuseOutsideKey } from '../../../shared/store/records/key.ts';
import type { BatchJob } from './batch-job.ts';

/**
 * `refused`: the line ends with this error. `later`: it may be admitted after `pauseMs`, because its account runs as many lines as it may,
 * is suspended, or too much usage waits for the store. `ended`: its request has already ended.
 */
export type AdmittedLine =
  | { outcome: 'admitted'; admission: Admission; plan: string }
  | { outcome: 'refused'; error: ApiError }
  | { outcome: 'later'; pauseMs: number }
  | { outcome: 'ended' };

/** Fails with `SERVICE_UNAVAILABLE` if the account cannot be read. */
export type AdmitLine = (job: BatchJob) => Promise<AdmittedLine>;

/** Pauses until another line of the account may have ended, and until a slower change may have happened. */
const soonMs = 1_000;
const laterMs = 15_000;

/**
 * Admits a line right before it runs, with the script that admits every request and the limits of batches
 * (contract.md#f5-limits-of-batches). The account's limits are those of now, not those of when the batch was submitted.
 */
export function createAdmitLine({
  admit,
  askLimits,
  callers,
  currentPlanFile,
}: {
  admit: Pick<Admit, 'admit' | 'readCounters'>;
  /** Reads an account's caller by its id, and keeps it in `callers`. */
  askLimits: AskLimits<string>;
  callers: Pick<KnownCallers, 'find' | 'scopeOf'>;
  currentPlanFile: () => PlanFile;
}): AdmitLine {
  return async function admitLine(job) {
    const { account, requestId, keyId, reservedTokens } = job;
    const planFile = currentPlanFile();
    const caller = callers.find(account);
    const asking = { account, subject: account, requestId, lane: 'batch' as const, caller };
    const { caller: current, answer } = await askLimits(asking, async (look, found) => {
      if (found === undefined || found.suspended || refusalOf(job, found, planFile) !== undefined)
        return admit.readCounters(look);
      const report = lostReport({ ...job, plan: found.plan });
      const key = limitedKeyOf(found, keyId);
      return admit.admit({ ...look, key }, { allowance: batchAllowanceOf(found, planFile), reservedTokens, report });
    });
    switch (answer.outcome) {
      case 'admitted':
        return { outcome: 'admitted', admission: answer.admission, plan: current.plan };
      case 'refused':
        // Reserved tokens may be released, so a quota is spent only when it is charged.
        if (answer.limit === 'quota' && isUsedUp(answer.counters, batchAllowanceOf(current, planFile))) {
          const overageMax = overageMaxOf(batchAllowanceOf(current, planFile));
          return refuse(quotaExceeded(spentQuota(current, answer.counters, planFile), overageMax));
        }
        if (answer.limit === 'key_quota' && isKeySpent(current, keyId, answer.counters))
          return refuse(keyQuotaExceeded(spentQuota(current, answer.counters, planFile)));
        return { outcome: 'later', pauseMs: soonMs };
      case 'counters':
        if (current.suspended) return { outcome: 'later', pauseMs: laterMs };
        return refuse(
          refusalOf(job, current, planFile) ??
            temporarilyUnavailable(new Error('a line was neither admitted nor refused')),
        );
      case 'full':
        return { outcome: 'later', pauseMs: laterMs };
      case 'ended':
        return { outcome: 'ended' };
      case 'repeated':
      case 'expired':
        throw new Error('a line of a batch has no idempotency key, and does not expire with its API key');
    }
  };

  function refusalOf(job: BatchJob, caller: Caller, planFile: PlanFile): ApiError | undefined {
    const { model, tier, endpoint, requestedModel, keyId } = job;
    const mayRun = planFile.plans[caller.plan]?.modelTiers.includes(tier) === true;
    if (!mayRun) return planLimit(model, caller.plan);
    return refuseOutsideKey(callers.scopeOf(caller, keyId), { endpoint, model, requestedModel });
  }

  /** A line counts only against the month of its key, and continues when the key has ended. */
  function limitedKeyOf(caller: Caller, keyId: string): LookKey | undefined {
    const { tokensPerMonth, monthLimitedSince } = callers.scopeOf(caller, keyId)?.limits ?? {};
    if (tokensPerMonth === undefined) return undefined;
    return { id: keyId, limits: { tokensPerMonth, ...(monthLimitedSince && { monthLimitedSince }) } };
  }

  function isKeySpent(caller: Caller, keyId: string, { key }: LimitCounters): boolean {
    const limit = limitedKeyOf(caller, keyId)?.limits?.tokensPerMonth;
    return limit !== undefined && key !== undefined && key.chargedTokens >= limit;
  }
}

function spentQuota(caller: Caller, counters: LimitCounters, planFile: PlanFile): SpentQuota {
  const resetDate = quotaOf(counters, batchAllowanceOf(caller, planFile)).period.end;
  return { resetDate, topupUrl: '', overageEnabled: caller.overageEnabled };
}

function refuse(error: ApiError): AdmittedLine {
  return { outcome: 'refused', error };
}

/** What the key of a batch allows its lines. */
type LineScope = { [Name in 'endpoints' | 'models' | 'limits']: KeyScope[Name] | undefined };

const callersMax = 10_000;

/** As in the ingress. If Redis loses its last writes, a stale caller is used no longer than this. */
const keptMs = 60_000;

/** Callers as this worker last read them. Each is used only while Redis says that its version is current. */
export function createKnownCallers() {
  const callers = new LRUCache<string, Caller>({ max: callersMax, ttl: keptMs });
  const scopes = new WeakMap<Caller, ReadonlyMap<string, LineScope>>();
  return {
    find: (account: string): Caller | undefined => callers.get(account),
    /** `account` is the one that the caller was read from, undefined if it was never used. */
    keep(caller: Caller, account: Account | undefined): void {
      callers.set(caller.account, caller);
      const keys = account?.keys ?? [];
      scopes.set(caller, new Map(keys.map(({ id, endpoints, models, limits }) => [id, { endpoints, models, limits }])));
    },
    /**
     * What the key of a batch may do; undefined for one that the account does not have. A key that has ended keeps its scope for its
     * batches.
     */
    scopeOf: (caller: Caller, keyId: string): LineScope | undefined => scopes.get(caller)?.get(keyId),
  };
}

type KnownCallers = ReturnType<typeof createKnownCallers>;

/** Makes a call for an account, or fails at once with `SERVICE_UNAVAILABLE` while calls for its partition fail. */
type CallPartition = <T>(account: string, call: () => Promise<T>) => Promise<T>;

/** After a call has failed, the next one is tried after this time. */
const partitionPauseMs = 2_000;

/**
 * Stops the calls for accounts of a partition whose node does not answer, except one at a time that finds out whether it does again. Each
 * call takes a second to fail, and hundreds of lines of such an account can be in the queue of a model. They would occupy the batch lane in
 * turns. A call that fails because of the store stops them, too: they would fail like it.
 */
export function createPartitionBreaker(now: () => number = () => performance.now()): CallPartition {
  const tryAt = new Map<number, number>();

  return async function callPartition(account, call) {
    const partition = partitionOf(account);
    const at = tryAt.get(partition);
    if (at !== undefined) {
      if (now() < at) throw temporarilyUnavailable(new Error('calls for this partition fail'));
      tryAt.set(partition, now() + partitionPauseMs);
    }
    try {
      const answer = await call();
      tryAt.delete(partition);
      return answer;
    } catch (error) {
      if (error instanceof ApiError && error.code === 'SERVICE_UNAVAILABLE')
        tryAt.set(partition, now() + partitionPauseMs);
      throw error;
    }
  };
}
