import { answerKeptMs, claimBytes, repeatsFree } from '../../shared/jobs/idempotency.ts';
import type { Repeat } from '../../shared/limits/admission.ts';
import { endedLifeMs } from '../../shared/limits/admit.ts';
import { timeouts } from './limits-side.ts';

/** A request with an idempotency key. */
export type ModelClaim = { key: string; body: string };
/** `bytes`: those of the answer that is kept. */
export type ModelClaimEnd = ModelClaim & { end: 'kept' | 'lost' | 'free'; bytes: number };
type Claimed = { request: string; body: string; ended?: 'kept' | 'lost'; until: number; repeats: number };
type Kept = { request: string; bytes: number; until: number };

/** `isFree`: it counts against no limit. */
type ModelRepeat = { how: Repeat; first: string; isFree: boolean };

/** The claims of one account, and what it keeps for them. `isRunning` and `isLost` tell what became of a request. */
export function createClaimsModel(of: { isRunning(request: string): boolean; isLost(request: string): boolean }) {
  const claims = new Map<string, Claimed>();
  const kept: Kept[] = [];

  function howOf({ request, ended }: Claimed): Exclude<Repeat, 'mismatch'> | undefined {
    if (ended !== undefined) return ended;
    if (of.isRunning(request)) return 'running';
    return of.isLost(request) ? undefined : 'lost';
  }

  return {
    /** The keys whose claims are over at this time. Redis removes them by its own clock. */
    expire(now: number): string[] {
      const over = [...claims].filter(([, { until }]) => until <= now).map(([key]) => key);
      for (const key of over) claims.delete(key);
      return over;
    },
    /** When answers expire, in order. */
    expiries: () => kept.map(({ until }) => until),
    /** What this request repeats, undefined if it may run. It is counted. */
    repeated(request: string, claim: ModelClaim | undefined): ModelRepeat | undefined {
      const found = claim && claims.get(claim.key);
      if (found === undefined || found.request === request) return undefined;
      const how = howOf(found);
      if (how === undefined) return undefined;
      found.repeats += 1;
      const isSame = found.body === claim?.body;
      return { how: isSame ? how : 'mismatch', first: found.request, isFree: found.repeats <= repeatsFree };
    },
    claim(request: string, claim: ModelClaim, now: number): void {
      const until = now + timeouts.requestMs + endedLifeMs;
      claims.set(claim.key, { request, body: claim.body, until, repeats: 0 });
    },
    /** `reserved`: for its answer, undefined if its lease is not known. */
    settle(
      request: string,
      claim: ModelClaimEnd | undefined,
      { now, reserved }: { now: number; reserved?: number },
    ): void {
      if (claim === undefined || (claims.get(claim.key)?.request ?? request) !== request) return;
      const repeats = claims.get(claim.key)?.repeats ?? 0;
      if (claim.end === 'free') claims.delete(claim.key);
      else {
        const until = now + answerKeptMs;
        claims.set(claim.key, { request, body: claim.body, ended: claim.end, until, repeats });
        const bytes = claimBytes + (claim.end === 'kept' ? claim.bytes : 0);
        kept.push({ request, bytes: Math.min(bytes, reserved ?? bytes), until });
      }
    },
    release(request: string, claim: ModelClaim | undefined): void {
      if (claim !== undefined && claims.get(claim.key)?.request === request) claims.delete(claim.key);
    },
    /** The bytes that are kept. Those of expired answers leave when the next request asks for room. */
    bytesKept: () => kept.reduce((sum, { bytes }) => sum + bytes, 0),
    removeExpired(now: number): void {
      for (const answer of kept.filter(({ until }) => until <= now)) kept.splice(kept.indexOf(answer), 1);
    },
    /** How long until as many bytes have expired. */
    waitFor(bytes: number, now: number): number {
      let over = bytes;
      for (const answer of kept.toSorted((one, other) => one.until - other.until)) {
        over -= answer.bytes;
        if (over <= 0) return answer.until - now;
      }
      throw new Error('fewer bytes are kept');
    },
  };
}
