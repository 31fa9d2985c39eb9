import { z } from 'zod';
import { changeSettings } from '../../shared/account-changes/change-settings.ts';
import { ApiError } from '../../shared/errors.ts';
import type { PlanFile } from '../../shared/plan-file/plan-file.ts';
import type { Decide } from '../../shared/store/documents.ts';
import type { Account } from '../../shared/store/records/account.ts';
import type { Store } from '../../shared/store/records/store.ts';
import { claimCode, noSuchCode, type TopUpCode } from '../../shared/store/records/top-up-codes.ts';
import { named, type Route, route } from '../api/route.ts';
import { byOwner } from './developer-keys.ts';
import { exampleQuota, presentQuota, quotaSchema } from './quota.ts';
import { hashTopUpCode, readTopUpCode, topUpCodeForm } from './top-up-codes.ts';

/** Sums of usage of a month stay exact integers in JavaScript and Lua. */
const tokensMax = 1e12;

const overageBody = named(
  'Overage',
  z.strictObject({
    enabled: z.boolean().meta({ description: 'Whether requests continue beyond the monthly allowance.' }),
    tokens_max: z.int().min(1).max(tokensMax).nullish().meta({
      description:
        "The most overage in a month, also this one; null: only the bound of the plan, if it has one. Omitted, it stays as it is. It narrows the plan's bound, and never widens it.",
    }),
  }),
);

const topUpBody = named(
  'TopUp',
  z.strictObject({
    code: z
      .string()
      .refine((text) => readTopUpCode(text) !== undefined, `expected a code like ${topUpCodeForm}`)
      .meta({ description: 'The code, in any case, with or without dashes.', examples: [topUpCodeForm] }),
  }),
);

export const overageRoutes: readonly Route[] = [
  /**
   * Turns overage on or off for the caller's account, from its next request on
   * (contract.md#j5-overage-and-top-up-codes). Fails with `FORBIDDEN` if the plan leaves that to operators. Leaves an audit record, unless
   * nothing changes.
   */
  route({
    id: 'updateOverage',
    method: 'PATCH',
    path: '/billing/overage',
    access: 'signIn',
    tag: 'Billing',
    summary: 'Turn overage on or off, and bound it',
    description:
      'Applies from the next request of the account. `FORBIDDEN` if the plan leaves overage to the operator. Adds an audit record, unless nothing changes.',
    body: { schema: overageBody, example: { enabled: true, tokens_max: 5_000_000 } },
    answers: {
      description: 'The quota after the change.',
      schema: quotaSchema,
      example: { ...exampleQuota, overageEnabled: true, overageLimit: 5_000_000, overageTokensMax: 5_000_000 },
    },
    limits: ['settings_limit'],
    counted: true,
    async handle(request, { http, authentication: { changeRecorded } }) {
      const { planFile, caller, at, body } = request;
      const { account: id } = caller;
      const decide = changeSettings({
        settings: { overageEnabled: body.enabled, overageTokensMax: body.tokens_max },
        at,
        by: id,
        unknown: { id, plan: planFile.defaultPlan },
      });
      const changed = await changeRecorded(id, ifSelfService(decide, planFile), byOwner(request));
      return presentQuota(request, http.topupUrl, changed);
    },
  }),
  /**
   * Redeems a code for the caller's account (contract.md#j5-overage-and-top-up-codes). First the code is claimed, by a guarded change of
   * its document; then the account gets the tokens; then the code is marked. If this process dies in between, a repeat or a worker does the
   * rest.
   */
  route({
    id: 'redeemTopUpCode',
    method: 'POST',
    path: '/billing/top-ups',
    access: 'signIn',
    tag: 'Billing',
    summary: 'Redeem a top-up code',
    description:
      'Adds the tokens of the code to the allowance of this month, once. Redeeming it again changes nothing. `CONFLICT`: another account has redeemed it, or it was revoked or has expired. `NOT_FOUND`: there is no such code.',
    body: { schema: topUpBody, example: { code: topUpCodeForm } },
    answers: {
      description: 'The quota after the top-up.',
      schema: quotaSchema,
      example: { ...exampleQuota, limit: 1_500_000, remaining: 1_499_958, topUp: 500_000 },
    },
    refusals: ['NOT_FOUND', 'CONFLICT'],
    limits: ['code_failures', 'settings_limit'],
    counted: true,
    async handle(request, { store, http, authentication: { applyTopUpCode, limitCodeFailures } }) {
      const { requestId, address, at, body } = request;
      const { account } = request.caller;
      const { id } = await limitCodeFailures(account, () => findCode(store, body.code));
      const code = await store.topUpCodes.changeCode(id, claimCode({ account, at, from: address }));
      const change = { at, requestId };
      const changed = code.state === 'claimed' ? await applyTopUpCode(code, change) : undefined;
      return presentQuota(request, http.topupUrl, changed);
    },
  }),
];

/** The plan is that of the account when it changes. */
function ifSelfService(
  decide: Decide<Account, Account | undefined>,
  { plans, defaultPlan }: PlanFile,
): Decide<Account, Account | undefined> {
  return (known) => {
    const plan = known?.plan ?? defaultPlan;
    if (plans[plan]?.overage !== 'operator') return decide(known);
    throw new ApiError(
      'FORBIDDEN',
      `On the plan "${plan}", overage is turned on and off by the operator of this service.`,
    );
  };
}

async function findCode({ topUpCodes }: Pick<Store, 'topUpCodes'>, text: string): Promise<TopUpCode> {
  const found = await topUpCodes.findCode(hashTopUpCode(readTopUpCode(text) ?? ''));
  if (found === undefined) throw noSuchCode();
  return found;
}
