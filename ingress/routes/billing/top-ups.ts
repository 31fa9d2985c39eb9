import { z } from 'zod';
import type { ApplyTopUpCode } from '../../../shared/account-changes/apply-top-up-code.ts';
import type { Store } from '../../../shared/store/store.ts';
import { claimCode, noSuchCode, type TopUpCode } from '../../../shared/store/top-up-codes/top-up-code.ts';
import { parseBody } from '../../api/json-body.ts';
import { hashTopUpCode, readTopUpCode, topUpCodeForm } from '../../callers/top-up-code-text.ts';
import type { LimitFailures } from '../../limits/limit-failures.ts';
import { type Stage, stateOf } from '../../request-state.ts';
import { presentCallersQuota, type QuotaDeps } from './quota.ts';

export const topUpBody = z.strictObject({
  code: z
    .string()
    .refine((text) => readTopUpCode(text) !== undefined, `expected a code like ${topUpCodeForm}`)
    .meta({ description: 'The code, in any case, with or without dashes.', examples: [topUpCodeForm] }),
});

type TopUpDeps = QuotaDeps & {
  store: Pick<Store, 'topUpCodes'>;
  applyTopUpCode: ApplyTopUpCode;
  limitCodeFailures: LimitFailures;
};

/**
 * `POST /billing/top-ups`: redeems a code for the caller's account (contract.md#j5-overage-and-top-up-codes). First the code is claimed, by
 * a guarded change of its document; then the account gets the tokens; then the code is marked. If this process dies in between, a repeat or
 * a worker does the rest.
 */
export function redeemTopUpCode({ store, applyTopUpCode, limitCodeFailures, ...deps }: TopUpDeps): Stage {
  const { topUpCodes } = store;

  async function find(text: string): Promise<TopUpCode> {
    const found = await topUpCodes.findCode(hashTopUpCode(readTopUpCode(text) ?? ''));
    if (found === undefined) throw noSuchCode();
    return found;
  }

  return async function redeemTopUpCode(ctx) {
    const { code: text } = parseBody(topUpBody, stateOf(ctx, 'body'));
    const { account } = stateOf(ctx, 'caller');
    const at = new Date(stateOf(ctx, 'counters').now);
    const { id } = await limitCodeFailures(account, () => find(text));
    const code = await topUpCodes.changeCode(id, claimCode({ account, at, from: stateOf(ctx, 'address') }));
    const change = { at, requestId: stateOf(ctx, 'requestId') };
    const changed = code.state === 'claimed' ? await applyTopUpCode(code, change) : undefined;
    ctx.body = presentCallersQuota(ctx, deps, changed);
  };
}
