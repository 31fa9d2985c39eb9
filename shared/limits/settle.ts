import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import { answerKeptMs, type ClaimEnd, claimBytes } from '../idempotency/claim.ts';
import type { UsageReport } from '../jobs/usage-outbox.ts';
import type { Lane } from '../lane.ts';
import { loadScript, type Redis } from '../redis/connections.ts';
import {
  claimKeysOf,
  countersKey,
  endedRequestKey,
  keyCountersKey,
  leaseEndsKey,
  leasesKey,
  lostRequestsKey,
  outboxKey,
  partitionOf,
} from '../redis/keys.ts';
import { loadLua } from '../redis/load-lua.ts';
import { monthOf } from '../store/accounts/account.ts';

/**
 * The end of a request. `run` is the run that ends it. `settler` is an id of the process that settles, by which a repeated call is
 * distinguished from that of another process. `tokens` are charged. `admission` is used if Redis has lost the lease. `claim` ends with a
 * request that has an idempotency key.
 */
export type Settlement = {
  account: string;
  requestId: string;
  run: number;
  settler: string;
  lane?: Lane;
  tokens: number;
  report: UsageReport;
  admission: { admittedAt: number; deadline: number; overage: boolean };
  claim?: ({ idempotencyKey: string; bodyMark: string } & ClaimEnd) | undefined;
};

const answerSchema = z.enum(['settled', 'refused', 'lost']);

/**
 * `refused`: this run may not settle it, because a later run has started or the request was already ended. `lost`: its lease has expired;
 * nothing is charged, and no other process ends the request.
 */
export type Settled = z.infer<typeof answerSchema>;
export type Settle = (settlement: Settlement) => Promise<Settled>;

/**
 * Charges the used tokens instead of the reserved ones, and adds the usage to the outbox, once
 * (decisions.md#an-outbox-in-the-settling-script). A failed call is retried, by default for some seconds, and then fails with its error:
 * the lease is left to expire, or to be settled later.
 */
export function createSettle(
  redis: Redis,
  { attemptsMax = 10, pauseMs = 500 }: { attemptsMax?: number; pauseMs?: number } = {},
): Settle {
  const lua = loadLua(new URL('./settle.lua', import.meta.url), { claimBytes });
  const call = loadScript(redis, { name: 'svcSettle', lua });
  return async ({ account, requestId, run, settler, lane, tokens, report, admission, claim }) => {
    const keys = [
      countersKey(account),
      leasesKey(account, lane),
      leaseEndsKey(account, lane),
      lostRequestsKey(account),
      endedRequestKey(account, requestId),
      outboxKey(partitionOf(account)),
      keyCountersKey(account, report.keyId),
      ...(claim === undefined ? [] : claimKeysOf(account, claim.idempotencyKey)),
    ];
    const { admittedAt, overage, deadline } = admission;
    const known = [monthOf(new Date(admittedAt)), Number(overage), admittedAt, deadline] as const;
    const args = [account, requestId, run, settler, tokens, JSON.stringify(report), ...known, ...claimArgs(claim)];
    for (let attempt = 1; ; attempt++) {
      try {
        return answerSchema.parse(await call(keys, args));
      } catch (error) {
        if (attempt === attemptsMax) throw error;
        await sleep(pauseMs);
      }
    }
  };
}

function claimArgs(claim: Settlement['claim']): (string | number | Buffer)[] {
  if (claim === undefined) return [];
  return [claim.bodyMark, claim.end, answerKeptMs, ...('answer' in claim ? [claim.answer] : [])];
}
