import { z } from 'zod';
import { type AppContext, stateOf } from '../../request-state.ts';

export const ownAccount = z.strictObject({
  object: z.literal('account'),
  account: z.string(),
  plan: z.string(),
  operator: z.boolean().meta({ description: 'Whether this sign-in token may use the routes of operators.' }),
});

export type OwnAccount = z.infer<typeof ownAccount>;

/** `GET /v1/account`: the account that signed in, and whether it is an operator. Only the service knows how its tokens are read. */
export async function retrieveOwnAccount(ctx: AppContext): Promise<void> {
  const { account, plan } = stateOf(ctx, 'caller');
  ctx.body = { object: 'account', account, plan, operator: stateOf(ctx, 'isOperator') } satisfies OwnAccount;
}
