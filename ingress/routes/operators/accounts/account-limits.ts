import type { Caller } from '../../../../shared/caller.ts';
import type { LimitCounters } from '../../../../shared/limits/admission.ts';
import type { Redis } from '../../../../shared/redis/connections.ts';
import type { Store } from '../../../../shared/store/store.ts';
import { type AppContext, type Stage, stateOf } from '../../../request-state.ts';
import { limitsInUse } from '../../billing/limits.ts';
import { type CallerCounters, presentQuota, type QuotaDeps } from '../../billing/quota.ts';
import { accountOf, findPresent, noSuchAccount } from './named-account.ts';

/** Reads an account as it is now, and the counters of its limits, which admission decides with. */
export type ReadCountersOf = (account: string) => Promise<{ caller: Caller; counters: LimitCounters }>;

type Deps = { readCountersOf: ReadCountersOf; store: Pick<Store, 'accounts'> };

/** `GET /admin/accounts/{account}/quota`: the month of any account, as it sees it itself. */
export function retrieveAccountQuota(deps: Deps & QuotaDeps): Stage {
  return async function retrieveAccountQuota(ctx) {
    ctx.body = presentQuota(await countedOf(ctx, deps), deps);
  };
}

/** `GET /admin/accounts/{account}/limits`: the limits in use of any account, as it sees them itself. */
export function retrieveAccountLimits(deps: Deps & { redis: Redis }): Stage {
  return async function retrieveAccountLimits(ctx) {
    ctx.body = await limitsInUse(await countedOf(ctx, deps), deps.redis);
  };
}

/** The counters of an unknown name would be created by reading them. */
async function countedOf(ctx: AppContext, { readCountersOf, store }: Deps): Promise<CallerCounters> {
  const account = accountOf(ctx);
  if ((await findPresent(store, account)) === undefined) throw noSuchAccount();
  return { ...(await readCountersOf(account)), planFile: stateOf(ctx, 'planFile') };
}
