import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import { answerKeptMs, type ClaimEnd, claimBytes } from '../jobs/idempotency.ts';
import type { UsageReport } from '../jobs/usage-outbox.ts';
import type { Redis } from '../redis/connections.ts';
import { claimKeysOf, endedRequestKey, keyCountersKey, type Lane, leaseKeysOf } from '../redis/keys.ts';
import { loadLua, loadScript } from '../redis/load-lua.ts';
import { monthOf } from '../store/records/account.ts';

/**
 * The end of a request. `run` is the run that ends it. `settler` is an id of the process that settles, by which a repeated call is
 * distinguished from that of another process. `admission` is used if Redis has lost the lease. `claim` ends with a
 * request that has an idempotency key.
 */
export type Settlement = {
  account: string;
  requestId: string;
  run: number;
  settler: string;
  lane?: Lane;
  chargedTokens: number;
  report: UsageReport;
  admission: { admittedAt: number; deadline: number; overage: boolean };
  claim?: ({ idempotencyKey: string; bodyMark: string } & ClaimEnd) | undefined;
};

const answerSchema = z.enum(['settled', 'refused', 'lost']);

/**
 * `refused`: this run may not settle it, because a later run has started or the request was already ended. `lost`: its lease has expired;
 * nothing is charged, and no other process ends the request.
 */
export type SettleAnswer = z.infer<typeof answerSchema>;
export type Settle = (settlement: Settlement) => Promise<SettleAnswer>;

const leaseKeys = 'countersKey leasesKey leaseEndsKey lostRequestsKey outboxKey';
const ofRequest = 'account request run settler chargedTokens report month overage admittedAt deadline';
const script = loadLua(new URL('./settle.lua', import.meta.url), {
  keys: `${leaseKeys} endedRequestKey keyCountersKey claimKey? keptAnswersKey? keptBytesKey?`,
  args: `${ofRequest} bodyMark? claimEnd? keptMs? answer?`,
  constants: { claimBytes },
});

/**
 * Charges these tokens instead of the reserved ones, and adds the usage to the outbox, once
 * (decisions.md#an-outbox-in-the-settling-script). A failed call is retried, by default for some seconds, and then fails with its error:
 * the lease is left to expire, or to be settled later.
 */
export function createSettle(
  redis: Redis,
  { attemptsMax = 10, pauseMs = 500 }: { attemptsMax?: number; pauseMs?: number } = {},
): Settle {
  const call = loadScript(redis, script);
  return async ({ account, requestId, run, settler, lane, chargedTokens, report, admission, claim }) => {
    const given = {
      ...leaseKeysOf(account, lane),
      ...(claim && claimKeysOf(account, claim.idempotencyKey)),
      endedRequestKey: endedRequestKey(account, requestId),
      keyCountersKey: keyCountersKey(account, report.keyId),
      account,
      request: requestId,
      run,
      settler,
      chargedTokens,
      report: JSON.stringify(report),
      month: monthOf(new Date(admission.admittedAt)),
      overage: Number(admission.overage),
      admittedAt: admission.admittedAt,
      deadline: admission.deadline,
      bodyMark: claim?.bodyMark,
      claimEnd: claim?.end,
      keptMs: claim && answerKeptMs,
      answer: claim && 'answer' in claim ? claim.answer : undefined,
    };
    for (let attempt = 1; ; attempt++) {
      try {
        return answerSchema.parse(await call(given));
      } catch (error) {
        if (attempt === attemptsMax) throw error;
        await sleep(pauseMs);
      }
    }
  };
}
