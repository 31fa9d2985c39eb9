import { ulid } from 'ulid';
import { z } from 'zod';
import { validationError } from '../../shared/errors.ts';
import { faultsOf } from '../../shared/faults.ts';
import type { Store } from '../../shared/store/store.ts';
import { displayPart, hashKey, makeKey, maskKey } from '../api-key.ts';
import { type Stage, stateOf } from '../request-state.ts';

const emptyObject = z.strictObject({});

type Parts = { store: Store; pepper: string; defaultPlan: string };

/**
 * `POST /v1/keys/developer`: mints the account's key, shown in full this once; an account that has one gets it masked
 * (specification 3 and 4, API C4). 200 in both cases.
 */
export function mintDeveloperKey({ store, pepper, defaultPlan }: Parts): Stage {
  return async function mintDeveloperKey(ctx) {
    const body = emptyObject.safeParse(stateOf(ctx, 'body').value);
    if (!body.success) throw validationError(faultsOf(body.error));
    const key = makeKey();
    const { minted, account } = await store.mintDeveloperKey({
      account: stateOf(ctx, 'account'),
      plan: defaultPlan,
      key: { id: `key_${ulid()}`, hash: hashKey(key, pepper), display: displayPart(key), createdAt: new Date() },
    });
    ctx.set('cache-control', 'no-store');
    ctx.body = { key: minted ? key : maskKey(account.key.display), plan: account.plan };
  };
}
