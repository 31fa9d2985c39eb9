import { z } from 'zod';
import { changed, newAccount } from '../../../../shared/account-changes/change-settings.ts';
import type { RecordedChange } from '../../../../shared/account-changes/recorded-change.ts';
import { ApiError } from '../../../../shared/errors.ts';
import type { BackendPause, BackendPauses } from '../../../../shared/fleet/backend-pauses.ts';
import { redisUnavailable } from '../../../../shared/redis/connections.ts';
import type { Account, Change } from '../../../../shared/store/accounts/account.ts';
import { parseBody } from '../../../api/json-body.ts';
import { parseQuery } from '../../../api/list-query.ts';
import { type AppContext, pathParameter, type Stage, stateOf } from '../../../request-state.ts';
import { reason, reasonOnly } from '../accounts/reason.ts';
import { operatorPause, presentPause } from '../fleet.ts';
import { type ActionOrigin, byOperator } from './record-action.ts';

const minutesMax = 1_440;

export const pauseBody = z.strictObject({
  minutes: z
    .int()
    .min(1)
    .max(minutesMax)
    .meta({ description: 'The pause ends after this time.', examples: [30] }),
  reason: reason.meta({ description: 'The reason, for the audit trail and the fleet.' }),
});

export const pausedBackend = z.strictObject({
  object: z.literal('backend_pause'),
  backend: z.string(),
  paused: operatorPause,
});

type Deps = { backendPauses: BackendPauses; changeRecorded: RecordedChange };

/**
 * `POST /admin/fleet/backends/{backend}/pause`: workers start no call of the backend for these minutes, from a second or two later on;
 * calls in flight go on. Replaces an earlier pause. Each call leaves an audit record of the operator, before the pause begins.
 */
export function pauseBackend({ backendPauses, changeRecorded }: Deps): Stage {
  return async function pauseBackend(ctx) {
    const { minutes, reason: why } = parseBody(pauseBody, stateOf(ctx, 'body'));
    const backend = wantedBackend(ctx);
    const by = byOperator(ctx, why);
    await record(ctx, changeRecorded, { by, change: { backendPaused: { backend, minutes } } });
    const since = by.at.getTime();
    const pause = { since, until: since + minutes * 60_000, by: by.by, reason: by.origin.reason };
    await backendPauses.set(backend, pause);
    ctx.body = present(backend, pause);
  };
}

/** `DELETE /admin/fleet/backends/{backend}/pause`: ends the pause. A backend that is not paused leaves no record. */
export function resumeBackend({ backendPauses, changeRecorded }: Deps): Stage {
  return async function resumeBackend(ctx) {
    const { reason: why } = parseQuery(reasonOnly, ctx.querystring);
    const backend = wantedBackend(ctx);
    const known = await redisUnavailable(backendPauses.read([backend]));
    if (known.get(backend) !== null) {
      await record(ctx, changeRecorded, { by: byOperator(ctx, why), change: { backendResumed: backend } });
      await backendPauses.end(backend);
    }
    ctx.body = present(backend, null);
  };
}

function present(backend: string, pause: BackendPause | null): z.infer<typeof pausedBackend> {
  return { object: 'backend_pause', backend, paused: presentPause(pause) };
}

function wantedBackend(ctx: AppContext): string {
  const backend = pathParameter(ctx, 'backend');
  if (stateOf(ctx, 'planFile').backends[backend] === undefined)
    throw new ApiError('NOT_FOUND', 'The plan file has no such backend.');
  return backend;
}

/** A backend is of no account: the record is one of the operator's own account. */
async function record(
  ctx: AppContext,
  changeRecorded: RecordedChange,
  { by, change }: { by: ActionOrigin; change: Pick<Change, 'backendPaused'> | Pick<Change, 'backendResumed'> },
): Promise<void> {
  const { defaultPlan } = stateOf(ctx, 'planFile');
  const decide = (known: Account | undefined) => {
    const next = changed(known ?? newAccount(by.by, defaultPlan, by.at), { ...by, ...change });
    return { result: next, next };
  };
  await changeRecorded(by.by, decide, { requestId: stateOf(ctx, 'requestId') });
}
