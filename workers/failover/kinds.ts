import type { ErrorContent } from '../../shared/endpoints/answers/backend-error.ts';

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
export const knownKinds: ReadonlySet<string> = new Set([
  ...statusOfKinds.flatMap(([, kinds]) => kinds),
  ...openAiCodes,
]);

/** The HTTP status that an error in a 200 stands for. */
export function statusIn({ status, kinds }: ErrorContent): number | undefined {
  return status ?? statusOfKinds.find(([, known]) => known.some((kind) => kinds.includes(kind)))?.[0];
}
