import type { PlanFile } from '../../shared/plan-file/plan-file.ts';
import type { UsageAttempt, UsageRecord } from '../../shared/store/usage/usage-record.ts';
import { secondsOf, shownKeyId } from '../api/present-file.ts';
import type { FoundRequest } from './found-request.ts';

type Backends = PlanFile['backends'];

/** A request as operators see it: with its account, and the names of backends. */
export function presentForOperator(account: string, request: FoundRequest, backends: Backends) {
  const attempts = request.state === 'ended' ? request.attempts : [];
  const shown = presentRequest(request, backends);
  return {
    ...shown,
    account,
    attempts: shown.attempts.map((attempt, index) => ({ ...attempt, backend: attempts[index]?.backend ?? null })),
  };
}

/** A request as clients see it. Until it has ended, what is known only then is null. */
export function presentRequest(request: FoundRequest, backends: Backends) {
  const { requestId: id, endpoint, model, state, admittedAt, keyId } = request;
  const record = request.state === 'ended' ? request : undefined;
  return {
    id,
    answer_id: record?.answerId ?? null,
    object: 'request',
    endpoint,
    model,
    state,
    outcome: record?.outcome ?? null,
    created_at: secondsOf(admittedAt),
    queue_ms: record?.queueWaitMs ?? null,
    first_token_ms: record?.firstTokenMs ?? null,
    duration_ms: record?.durationMs ?? null,
    attempts: record?.attempts.map((attempt) => presentAttempt(attempt, backends)) ?? [],
    usage: record === undefined ? null : presentUsage(record),
    charged_tokens: record?.chargedTokens ?? null,
    key_id: shownKeyId(keyId),
  };
}

/** The names of backends are for operators. A backend that has left the plan file has no location. */
function presentAttempt({ backend, outcome, durationMs }: UsageAttempt, backends: Backends) {
  const location = backend === undefined ? undefined : backends[backend]?.location;
  return { location: location ?? null, outcome, ms: durationMs ?? null };
}

function presentUsage({ promptTokens, completionTokens, counted }: UsageRecord) {
  return {
    prompt_tokens: promptTokens,
    completion_tokens: completionTokens,
    total_tokens: promptTokens + completionTokens,
    estimated: counted === 'estimated',
  };
}
