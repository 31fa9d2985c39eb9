import { createHmac, hkdfSync } from 'node:crypto';
import type { Lane } from '../../shared/lane.ts';
import type { Backend, PlanFile } from '../../shared/plan-file/plan-file.ts';
import { priorityMax, usualPriority } from '../../shared/plan-file/plan-file-schema.ts';

/** Fields that the service sets in the request to a backend (contract.md#q7-own-fields). They replace the client's. */
export type OwnFields = { readonly cache_salt?: string; readonly priority?: number };

type LaneJob = { job: { account: string; plan: string }; lane: Lane };

/**
 * `cache_salt`: with it, a model server shares cached prompts only between requests of one account. So no account can find out by the time
 * to the first token what another account has sent. It is an HMAC of the account, and cannot be guessed. `priority`: that of the account's
 * plan, as in our own queue (vLLM also serves a lower number first). Lines of batches come after every request.
 */
export function createOwnFields({ plans, pepper }: { plans: () => PlanFile['plans']; pepper: string | undefined }) {
  const saltKey = pepper === undefined ? undefined : Buffer.from(hkdfSync('sha256', pepper, '', 'svc cache salt', 32));

  function saltOf(account: string): string {
    if (saltKey === undefined) throw new Error('a backend has cache_salt, and there is no secret for it');
    return createHmac('sha256', saltKey).update(account).digest('base64url');
  }

  return function ownFields({ job, lane }: LaneJob, { cacheSalt, priority }: Backend): OwnFields {
    const planPriority = plans()[job.plan]?.priority ?? usualPriority;
    return {
      ...(cacheSalt && { cache_salt: saltOf(job.account) }),
      ...(priority && { priority: lane === 'batch' ? planPriority + priorityMax : planPriority }),
    };
  };
}
