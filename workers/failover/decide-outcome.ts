import type { BackendError, ErrorContent } from '../../shared/endpoints/answers/backend-error.ts';
import type { Evidence } from '../backends/evidence.ts';
import { busyRules, connectionRules, operatorRules, statusRules } from './backend-rules.ts';
import { type AttemptFailure, matches, type Outcome, type Rule } from './outcome.ts';
import { contextRules, requestRules } from './request-rules.ts';

/** In this order: the first that matches decides. */
export const rules: readonly Rule[] = [
  ...connectionRules,
  ...operatorRules,
  ...contextRules,
  ...requestRules,
  ...busyRules,
  ...statusRules,
];

/**
 * What came of an attempt without an answer. `rule`: the one that decided. `words` are the backend's, as it wrote them. The numbers are
 * what it said: `retryAfterMs` not to call it, `contextTokens` its context, `promptTokens` those of the request. `limitField`: the field of
 * the output limit that it refuses.
 */
export type Decision = {
  outcome: Exclude<Outcome, 'answered'>;
  rule: string;
  status: number | undefined;
  /** Codes and types of the error that are of a known vocabulary. */
  kinds: readonly string[];
  words: string;
  param?: string | undefined;
  evidence?: Evidence | undefined;
  isLoss: boolean;
  retryAfterMs?: number | undefined;
  contextTokens?: number | undefined;
  promptTokens?: number | undefined;
  limitField?: string | undefined;
};

/** Decides what a call without an answer means. `hasText`: text of its answer was sent to the client. */
export function decideOutcome(error: BackendError, { hasText }: { hasText: boolean }): Decision {
  const { fault, said, retryAfterMs, wasSent } = error;
  const kinds = said?.kinds ?? [];
  const words = said?.words ?? '';
  const status = error.status ?? (said && statusIn(said));
  return decide({ fault, status, kinds, words, retryAfterMs, wasSent, hasText }, said);
}

/** The decision by the tables. */
export function decide(
  came: AttemptFailure,
  said?: Pick<ErrorContent, 'param' | 'promptTokens' | 'contextTokens'>,
): Decision {
  const { kinds = [], words = '', status, retryAfterMs } = came;
  const rule = rules.find((each) => matches(each, came));
  if (rule === undefined) throw new Error(`no rule for ${came.fault}`); // the last ones match everything
  const named = rule.sentence?.exec(words)?.groups ?? {};
  return {
    outcome: rule.outcome as Decision['outcome'],
    rule: rule.id, // no rule is for answers
    status,
    kinds: kinds.filter((kind) => shownKinds.has(kind)),
    words,
    param: said?.param,
    evidence: rule.evidence,
    isLoss: rule.isLoss ?? false,
    retryAfterMs,
    contextTokens: said?.contextTokens ?? numberOf(named.context),
    promptTokens: said?.promptTokens ?? numberOf(named.prompt),
    limitField: named.field?.toLowerCase(),
  };
}

function numberOf(text: string | undefined): number | undefined {
  const number = Number(text?.replaceAll(',', '') ?? Number.NaN);
  return Number.isSafeInteger(number) && number > 0 ? number : undefined;
}

/** What errors in a 200 stand for, by their codes and types (OpenAI, Anthropic, vLLM, SGLang, gRPC). */
const statusOfKinds: readonly [status: number, kinds: readonly string[]][] = [
  [401, ['authentication_error', 'invalid_api_key', 'unauthenticated', 'unauthorized']],
  [402, ['billing_error', 'insufficient_credits', 'insufficient_balance']],
  [403, ['permission_error', 'permission_denied', 'permissiondeniederror']],
  [404, ['not_found_error', 'notfounderror', 'not_found', 'model_not_found']],
  [413, ['request_too_large']],
  [429, ['rate_limit_error', 'rate_limit_exceeded', 'insufficient_quota', 'resource_exhausted', 'too_many_requests']],
  [501, ['not_implemented', 'not_supported_error', 'unimplemented', 'notimplementederror']],
  [503, ['unavailable_error', 'unavailable', 'service unavailable', 'service_unavailable', 'serviceunavailableerror']],
  [529, ['overloaded_error', 'overloaded']],
  [
    400,
    [
      ...['invalid_request_error', 'badrequesterror', 'bad_request_error', 'invalid_argument', 'validation'],
      ...['context_length_exceeded', 'exceed_context_size_error', 'invalid_prompt', 'content_filter', 'bad request'],
    ],
  ],
  [500, ['server_error', 'api_error', 'internalservererror', 'internal_server_error', 'internal', 'internal_error']],
];

/** Codes of OpenAI's API that clients act on (OpenAI API reference, error codes; its SDKs and agents). */
export const openAiCodes: ReadonlySet<string> = new Set([
  ...['context_length_exceeded', 'string_above_max_length', 'invalid_prompt', 'content_policy_violation'],
  ...['content_filter', 'unsupported_parameter', 'unsupported_value', 'unknown_parameter', 'invalid_value'],
  ...['invalid_type', 'missing_required_parameter', 'invalid_image', 'invalid_image_format', 'invalid_image_url'],
  ...['image_too_large', 'image_parse_error', 'empty_image_file', 'unsupported_image_media_type', 'invalid_base64'],
  'image_content_policy_violation',
]);

/** Codes and types that may stand in records and logs. Any other could be words. */
const knownKinds: ReadonlySet<string> = new Set([...statusOfKinds.flatMap(([, kinds]) => kinds), ...openAiCodes]);

/** Also those that the rules name. */
const shownKinds = new Set([...knownKinds, ...rules.flatMap(({ kinds = [] }) => kinds)]);

/** The HTTP status that an error in a 200 stands for. */
function statusIn({ status, kinds }: ErrorContent): number | undefined {
  return status ?? statusOfKinds.find(([, known]) => known.some((kind) => kinds.includes(kind)))?.[0];
}
