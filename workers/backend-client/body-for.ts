import { createHmac, hkdfSync } from 'node:crypto';
import { endpointAt } from '../../shared/endpoints/endpoints.ts';
import type { QueuedCall } from '../../shared/jobs/inference-job.ts';
import { mayBeInexact, parseExactly } from '../../shared/json/exact-json.ts';
import type { Backend, PlanFile } from '../../shared/plan-file/plan-file.ts';
import { priorityMax, usualPriority } from '../../shared/plan-file/plan-file-schema.ts';
import type { Lane } from '../../shared/redis/keys.ts';

type CallFields = Pick<
  QueuedCall,
  'endpoint' | 'payload' | 'model' | 'outputTokensMax' | 'limitFields' | 'assembled' | 'stream' | 'choices'
>;

/** The output limit for one call: other tokens than those that were reserved, or under another name than usual. */
export type CallLimit = { tokens?: number; field?: string };

/**
 * Returns the request body for a backend: the payload of the job, with the backend's own name for the model and the output limit before
 * it. The limit is always sent (contract.md#ms7-output-limit). An answer that is assembled is requested as a stream, with its usage
 * (decisions.md#whole-answers-as-streams). Our own fields (`own`) replace the client's.
 */
export function bodyFor(
  job: CallFields,
  backend: Backend,
  { own = {}, limit = {} }: { own?: OwnFields; limit?: CallLimit } = {},
): string {
  const { answer } = endpointAt(job.endpoint);
  const limits = Object.fromEntries(
    limitFieldsOf(job, backend, limit).map((field) => [field, limit.tokens ?? job.outputTokensMax]),
  );
  const isStream = job.stream || isAssembled(job, backend);
  // Some servers answer with a stream if the field is missing.
  const assembly = isStream && !job.stream ? answer.stream?.assembly?.fields : {};
  const streaming = answer.stream && { stream: isStream, ...assembly, ...(isStream && usageInChunks(job, backend)) };
  const front = JSON.stringify({ model: backend.model ?? job.model, ...limits, ...own, ...streaming });
  const rest = withoutFields(job.payload, Object.keys({ ...own, ...streaming }));
  return rest === '{}' ? front : `${front.slice(0, -1)},${rest.slice(1)}`;
}

/**
 * The names under which the limit is sent: the one that this backend is known to accept, else those that the client has used, else the
 * first of the endpoint. Some servers refuse two.
 */
function limitFieldsOf(
  { endpoint, limitFields }: CallFields,
  { outputLimitField }: Backend,
  { field }: CallLimit,
): readonly string[] {
  const names = endpointAt(endpoint).request.limitFields;
  const only = field ?? outputLimitField;
  if (only !== undefined && names.includes(only)) return [only];
  return limitFields.length > 0 ? limitFields : names.slice(0, 1);
}

/** The other name of the output limit of this endpoint, if it has two. */
export function otherLimitField({ endpoint }: Pick<CallFields, 'endpoint'>, refused: string): string | undefined {
  const names = endpointAt(endpoint).request.limitFields;
  return names.includes(refused) ? names.find((name) => name !== refused) : undefined;
}

/**
 * vLLM's and SGLang's name for a usage in every chunk. It is that of one choice, so it is not asked for with several. The client's other
 * options of the stream remain.
 */
function usageInChunks({ endpoint, payload, choices }: CallFields, backend: Backend): object {
  const { assembly } = endpointAt(endpoint).answer.stream ?? {};
  if (backend.usageInChunks !== true || choices > 1 || assembly?.fields.stream_options === undefined) return {};
  const { stream_options: sent } = JSON.parse(payload) as { stream_options?: object }; // a request that was accepted
  return { stream_options: { ...sent, include_usage: true, continuous_usage_stats: true } };
}

/** Some servers use the last of two fields with one name. A payload is as `JSON.stringify` writes it. */
function withoutFields(payload: string, names: readonly string[]): string {
  if (!names.some((name) => payload.includes(`"${name}":`))) return payload;
  const sent: object = mayBeInexact(payload) ? parseExactly(payload) : JSON.parse(payload);
  const left = Object.entries(sent).filter(([name]) => !names.includes(name));
  return JSON.stringify(Object.fromEntries(left));
}

/** Whether a whole answer is requested as a stream and assembled: both the request and the backend must allow it. */
export function isAssembled({ assembled }: Pick<QueuedCall, 'assembled'>, { wholeAsStream }: Backend): boolean {
  return assembled && wholeAsStream !== false;
}

/** Fields that the service sets in the request to a backend (contract.md#q7-own-fields). They replace the client's. */
type OwnFields = { readonly cache_salt?: string; readonly priority?: number };

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
