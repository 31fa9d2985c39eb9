import { parseQuery } from '../../../api/list-query.ts';
import { presentOperatorBatch } from '../../../api/present-batch.ts';
import { presentList } from '../../../api/present-list.ts';
import type { Stage } from '../../../request-state.ts';
import { batchesQuery } from '../../batches.ts';
import { accountOf, type KnownAccountDeps, requireKnown } from './named-account.ts';

/** `GET /admin/accounts/{account}/batches`: the batches of any account, newest first. */
export function listAccountBatches(deps: KnownAccountDeps): Stage {
  return async function listAccountBatches(ctx) {
    const { limit, after } = parseQuery(batchesQuery, ctx.querystring);
    const account = accountOf(ctx);
    const found = await deps.store.batches.listBatches(account, { limit: limit + 1, after, order: 'desc' });
    if (found.length === 0) await requireKnown(account, deps);
    ctx.body = presentList({ found, limit, present: presentOperatorBatch });
  };
}
