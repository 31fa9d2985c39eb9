import type { Repeat } from '../../shared/limits/admission.ts';

/** A request with an idempotency key. */
export type ModelClaim = { key: string; body: string };
export type ModelClaimEnd = ModelClaim & { end: 'kept' | 'lost' | 'free' };
type Claimed = { request: string; body: string; ended?: 'kept' | 'lost' };

/** The claims of one account. `isRunning` and `isLost` tell what became of a request. */
export function createClaimsModel(of: { isRunning(request: string): boolean; isLost(request: string): boolean }) {
  const claims = new Map<string, Claimed>();

  function howOf({ request, ended }: Claimed): Exclude<Repeat, 'mismatch'> | undefined {
    if (ended !== undefined) return ended;
    if (of.isRunning(request)) return 'running';
    return of.isLost(request) ? undefined : 'lost';
  }

  return {
    /** What this request repeats, undefined if it may run. */
    repeated(request: string, claim: ModelClaim | undefined): { how: Repeat; first: string } | undefined {
      const found = claim && claims.get(claim.key);
      if (found === undefined || found.request === request) return undefined;
      const how = howOf(found);
      if (how === undefined) return undefined;
      return { how: found.body === claim?.body ? how : 'mismatch', first: found.request };
    },
    claim(request: string, claim: ModelClaim | undefined): void {
      if (claim !== undefined) claims.set(claim.key, { request, body: claim.body });
    },
    settle(request: string, claim: ModelClaimEnd | undefined): void {
      if (claim === undefined || (claims.get(claim.key)?.request ?? request) !== request) return;
      if (claim.end === 'free') claims.delete(claim.key);
      else claims.set(claim.key, { request, body: claim.body, ended: claim.end });
    },
    release(request: string, claim: ModelClaim | undefined): void {
      if (claim !== undefined && claims.get(claim.key)?.request === request) claims.delete(claim.key);
    },
  };
}
