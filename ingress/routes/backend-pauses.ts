import { z } from 'zod';
import type { RecordedChange } from '../../shared/account-changes/change-account.ts';
import { changed, newAccount } from '../../shared/account-changes/change-settings.ts';
import { ApiError } from '../../shared/errors.ts';
import type { BackendPause } from '../../shared/fleet/backend-pauses.ts';
import type { PlanFile } from '../../shared/plan-file/plan-file.ts';
import { redisUnavailable } from '../../shared/redis/connections.ts';
import type { Account, Change } from '../../shared/store/records/account.ts';
import { named, type Route, type RouteRequest, route } from '../api/route.ts';
import { operatorPause, presentPause } from './fleet.ts';
import { type ActionOrigin, byOperator, reason, reasonOnly } from './operator-action.ts';

const minutesMax = 1_440;

const pauseBody = named(
  'PauseBackend',
  z.strictObject({
    minutes: z
      .int()
      .min(1)
      .max(minutesMax)
      .meta({ description: 'The pause ends after this time.', examples: [30] }),
    reason: reason.meta({ description: 'The reason, for the audit trail and the fleet.' }),
  }),
);

const pausedBackendSchema = named(
  'PausedBackend',
  z.strictObject({
    object: z.literal('backend_pause'),
    backend: z.string(),
    paused: operatorPause,
  }),
);

const examplePause = {
  object: 'backend_pause',
  backend: 'onprem-a',
  paused: {
    since: '2026-03-01T09:00:00.000Z',
    ends_at: '2026-03-01T09:30:00.000Z',
    by: 'user:olga',
    reason: 'A new driver.',
  },
} as const;

const params = { backend: { description: 'The name of a backend in the plan file.', example: 'onprem-a' } };

export const backendPauseRoutes: readonly Route[] = [
  /**
   * Workers start no call of the backend for these minutes, from a second or two later on;
   * calls in flight go on. Replaces an earlier pause. Each call leaves an audit record of the operator, before the pause begins.
   */
  route({
    id: 'pauseBackend',
    method: 'POST',
    path: '/admin/fleet/backends/:backend/pause',
    access: 'operator',
    tag: 'Operators',
    summary: 'Pause a backend',
    description:
      'Workers start no call of it, from a second or two later on; calls in flight go on. The pause ends after these minutes, or with DELETE. Replaces an earlier pause. Adds an audit record to the account of the operator.',
    body: { schema: pauseBody, example: { minutes: 30, reason: 'A new driver.' } },
    answers: { description: 'The pause.', schema: pausedBackendSchema, example: examplePause },
    refusals: ['NOT_FOUND'],
    params,
    async handle(request, { operators: { backendPauses }, authentication: { changeRecorded } }) {
      const { minutes, reason: why } = request.body;
      const { backend } = request.params;
      requireBackend(backend, request.planFile);
      const by = byOperator(request, why);
      await record(request, changeRecorded, { by, change: { backendPaused: { backend, minutes } } });
      const since = by.at.getTime();
      const pause = { since, until: since + minutes * 60_000, by: by.by, reason: by.origin.reason };
      await backendPauses.set(backend, pause);
      return present(backend, pause);
    },
  }),
  /** Ends the pause. A backend that is not paused leaves no record. */
  route({
    id: 'resumeBackend',
    method: 'DELETE',
    path: '/admin/fleet/backends/:backend/pause',
    access: 'operator',
    tag: 'Operators',
    summary: 'End the pause of a backend',
    description:
      'Workers call it again within a second or two. Adds an audit record to the account of the operator, unless the backend is not paused.',
    query: reasonOnly,
    answers: {
      description: 'The backend is not paused.',
      schema: pausedBackendSchema,
      example: { ...examplePause, paused: null },
    },
    refusals: ['NOT_FOUND'],
    params,
    async handle(request, { operators: { backendPauses }, authentication: { changeRecorded } }) {
      const { backend } = request.params;
      requireBackend(backend, request.planFile);
      const known = await redisUnavailable(backendPauses.read([backend]));
      if (known.get(backend) !== null) {
        const by = byOperator(request, request.query.reason);
        await record(request, changeRecorded, { by, change: { backendResumed: backend } });
        await backendPauses.end(backend);
      }
      return present(backend, null);
    },
  }),
];

function present(backend: string, pause: BackendPause | null): z.infer<typeof pausedBackendSchema> {
  return { object: 'backend_pause', backend, paused: presentPause(pause) };
}

function requireBackend(backend: string, { backends }: PlanFile): void {
  if (!Object.hasOwn(backends, backend)) throw new ApiError('NOT_FOUND', 'The plan file has no such backend.');
}

/** A backend is of no account: the record is one of the operator's own account. */
async function record(
  { planFile: { defaultPlan }, requestId }: Pick<RouteRequest, 'planFile' | 'requestId'>,
  changeRecorded: RecordedChange,
  { by, change }: { by: ActionOrigin; change: Pick<Change, 'backendPaused'> | Pick<Change, 'backendResumed'> },
): Promise<void> {
  const decide = (known: Account | undefined) => {
    const next = changed(known ?? newAccount(by.by, defaultPlan, by.at), { ...by, ...change });
    return { result: next, next };
  };
  await changeRecorded(by.by, decide, { requestId });
}
