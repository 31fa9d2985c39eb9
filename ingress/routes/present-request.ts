import { z } from 'zod';
import type { PlanFile } from '../../shared/plan-file/plan-file.ts';
import { type UsageAttempt, type UsageRecord, usageOutcomes } from '../../shared/store/usage/usage-record.ts';
import { count, secondsOf, shownKeyId } from '../api/response-fields.ts';
import { named } from '../api/route.ts';
import type { FoldedLines, FoundRequest } from '../requests/find-requests.ts';

type Backends = PlanFile['backends'];

/** A request as operators see it: with its account, and the names of backends. */
export function presentForOperator(account: string, request: FoundRequest, backends: Backends): OperatorRequest {
  const attempts = request.state === 'ended' ? request.attempts : [];
  const shown = presentRequest(request, backends);
  return {
    ...shown,
    account,
    attempts: shown.attempts.map((attempt, index) => {
      const { backend = null, address = null, rule = null } = attempts[index] ?? {};
      return { ...attempt, backend, address, rule };
    }),
  };
}

/** A request as clients see it. Until it has ended, what is known only then is null. */
export function presentRequest(request: FoundRequest, backends: Backends): Request {
  const { requestId: id, endpoint, model, state, admittedAt, keyId, batch } = request;
  const record = request.state === 'ended' ? request : undefined;
  return {
    id,
    answer_id: record?.answerId ?? null,
    object: 'request',
    endpoint,
    model,
    state,
    outcome: record?.outcome ?? null,
    status: record?.status ?? null,
    code: record?.code ?? null,
    created_at: secondsOf(admittedAt),
    queue_ms: record?.queueWaitMs ?? null,
    first_token_ms: record?.firstTokenMs ?? null,
    duration_ms: record?.durationMs ?? null,
    attempts: record?.attempts.map((attempt) => presentAttempt(attempt, backends)) ?? [],
    usage: record === undefined ? null : presentUsage(record),
    charged_tokens: record?.chargedTokens ?? null,
    key_id: shownKeyId(keyId),
    batch_id: batch,
  };
}

/** The names of backends are for operators. A backend that has left the plan file has no location. */
function presentAttempt({ backend, outcome, cause, durationMs }: UsageAttempt, backends: Backends) {
  const location = backend === undefined ? undefined : backends[backend]?.location;
  return { location: location ?? null, outcome, cause: cause ?? null, ms: durationMs ?? null };
}

function presentUsage({ promptTokens, completionTokens, counted }: UsageRecord) {
  return {
    prompt_tokens: promptTokens,
    completion_tokens: completionTokens,
    total_tokens: promptTokens + completionTokens,
    estimated: counted === 'estimated',
  };
}

const attempt = z.strictObject({
  location: z
    .enum(['on-prem', 'cloud'])
    .nullable()
    .meta({ description: 'Of the model server; null if the server is no longer in the plan file, or is not known.' }),
  outcome: z.string().meta({ description: '`answered`, or what came instead: see Find a request.' }),
  cause: z
    .string()
    .nullable()
    .meta({ description: 'Why it gave no answer, such as `connection refused` or `HTTP 401`; null if it gave one.' }),
  ms: count.nullable().meta({ description: 'Milliseconds; null if they are not known.' }),
});

const operatorAttempt = attempt.extend({
  backend: z.string().nullable(),
  address: z.string().nullable().meta({ description: 'Where it was called, if it gave no answer.' }),
  rule: z.string().nullable().meta({ description: 'The rule that recognised what it said.' }),
});

const usage = z.strictObject({
  prompt_tokens: count,
  completion_tokens: count,
  total_tokens: count,
  estimated: z.boolean().meta({ description: 'Whether the service has counted, because the model server did not.' }),
});

export const requestSchema = named(
  'Request',
  z.strictObject({
    id: z.string().meta({ description: 'The `x-request-id`.' }),
    answer_id: z
      .string()
      .nullable()
      .meta({ description: 'The id that the model server gave its answer, if it has ended.' }),
    object: z.literal('request'),
    endpoint: z.string(),
    model: z.string(),
    state: z.enum(['queued', 'running', 'streaming', 'ended']),
    outcome: z.enum(usageOutcomes).nullable().meta({ description: 'Null until it has ended.' }),
    status: z
      .int()
      .nullable()
      .meta({ description: 'The HTTP status of its error: 200 if a stream had begun. Null without an error.' }),
    code: z.string().nullable().meta({ description: 'The code of its error; null if it got none.' }),
    created_at: count.meta({ description: 'Seconds since 1970, UTC.' }),
    queue_ms: count.nullable().meta({ description: 'Milliseconds in the queue.' }),
    first_token_ms: count.nullable().meta({ description: 'Milliseconds from its admission to the first token.' }),
    duration_ms: count.nullable().meta({ description: 'Milliseconds from its admission to its end.' }),
    attempts: z.array(attempt).meta({ description: 'Calls of model servers, in order; none until it has ended.' }),
    usage: usage.nullable().meta({ description: 'Null until it has ended.' }),
    charged_tokens: count.nullable().meta({ description: 'Null until it has ended.' }),
    key_id: z.string().nullable(),
    batch_id: z.string().nullable().meta({ description: 'The batch that it is a line of.' }),
  }),
);

const folded = {
  lines: z
    .strictObject({ requests: count, failed: count, charged_tokens: count })
    .optional()
    .meta({ description: 'With `fold_lines`: the lines of its batch that it stands for, itself included.' }),
};

export function presentLines({ requests, failed, chargedTokens }: FoldedLines) {
  return { lines: { requests, failed, charged_tokens: chargedTokens } };
}

export const operatorRequestSchema = named(
  'OperatorRequest',
  requestSchema.extend({
    account: z.string(),
    attempts: z.array(operatorAttempt),
  }),
);

export const requestListSchema = named(
  'RequestList',
  z.strictObject({
    object: z.literal('list'),
    data: z.array(requestSchema.extend(folded)),
    first_id: z.string().nullable(),
    last_id: z.string().nullable().meta({ description: 'Where the next page begins: not always in `data`.' }),
    has_more: z.boolean(),
  }),
);

export const operatorRequestListSchema = named(
  'OperatorRequestList',
  requestListSchema.extend({ data: z.array(operatorRequestSchema.extend(folded)) }),
);

export type Request = z.infer<typeof requestSchema>;
export type OperatorRequest = z.infer<typeof operatorRequestSchema>;
export type RequestList = z.infer<typeof requestListSchema>;
