import { z } from 'zod';
import { affinities } from '../endpoints/affinity-keys.ts';
import { endpointNames } from '../endpoints/endpoints.ts';
import { isMediaHost } from '../endpoints/fields/media-values.ts';
import { priceFields } from './read-yaml.ts';

/** A backend as the plan file has it. */

const positive = z.int().positive();
const filePath = z.string().min(1).max(4_096);

/** The first one takes the key as Bearer. */
const apiKeyHeaders = ['authorization', 'x-api-key', 'api-key'] as const;

const namedValuesMax = 16;
const headerName = /^[a-z0-9!#$%&'*+.^_`|~-]{1,64}$/;
const headerValue = /^[!-~](?:[ -~]{0,1022}[!-~])?$/;
const queryName = /^[A-Za-z0-9._~-]{1,64}$/;

/** Those that the service sets itself, those of one connection only (RFC 9110, section 7.6.1), and those that would change the body. */
const reservedHeaders = new Set([
  ...['accept', 'accept-encoding', 'content-encoding', 'content-length', 'content-type', 'host', 'x-request-id'],
  ...['traceparent', 'tracestate', 'expect', 'connection', 'keep-alive', 'proxy-connection', 'te', 'trailer'],
  ...['transfer-encoding', 'upgrade'],
]);

/** By the words of names that providers give to headers and parameters with keys. */
const secretName =
  /(?:^|[-_.])(?:auth|authorization|authentication|bearer|jwt|session|key|apikey|subscription-key|token|(?:access|api|auth)token|secret|passw(?:or)?d|pwd|credentials?|cookie2?|sig|signature|code)(?:$|[-_.])/i;
/** `accessToken` has the words of `access-token`. */
const inWords = (name: string) => name.replaceAll(/([a-z0-9])([A-Z])/g, '$1-$2');

const [heldBySecret, heldByService] = [
  'may hold a secret: use api_key_header with api_key_env or api_key_file',
  'is set by the service',
];

/** Fixed names and values that every call of a backend has. `faultOf`: what is wrong with a name. */
function namedValues(value: z.ZodString, faultOf: (name: string) => string | undefined) {
  return z.record(z.string(), value).superRefine((values, ctx) => {
    const names = Object.keys(values);
    if (names.length > namedValuesMax) ctx.addIssue({ code: 'custom', message: `has more than ${namedValuesMax}` });
    for (const name of names) {
      const message = secretName.test(inWords(name)) ? heldBySecret : faultOf(name);
      if (message !== undefined) ctx.addIssue({ code: 'custom', path: [name], message });
    }
  });
}

const headers = namedValues(z.string().regex(headerValue, 'expected at most 1,024 ASCII characters'), (name) => {
  if (!headerName.test(name)) return 'expected the name of a header in lower case';
  return reservedHeaders.has(name) ? heldByService : undefined;
});

const query = namedValues(z.string().max(1_024), (name) =>
  queryName.test(name) ? undefined : 'expected a name of letters, digits and ._~-',
);

const backendSchema = z.strictObject({
  url: z.url({ protocol: /^https?$/ }).describe('The address of the OpenAI-compatible API'),
  location: z.enum(['on-prem', 'cloud']).describe('Backends on-prem are called before those in a cloud'),
  requests_at_once: positive.optional().describe('Calls at once, of all workers together'),
  per_worker: z.boolean().optional().describe('Makes requests_at_once the limit of each worker'),
  model: z
    .string()
    .min(1)
    .max(256)
    .optional()
    .describe('The model name that is sent to the backend. Default: the name of the model here'),
  api_key_env: z
    .string()
    .regex(/^[A-Za-z_][A-Za-z0-9_]*$/, 'expected the name of an environment variable')
    .optional()
    .describe('The variable in the environment of workers with the API key of the backend'),
  api_key_file: filePath
    .optional()
    .describe('A file with the API key of the backend, which workers read again when it changes'),
  api_key_header: z
    .enum(apiKeyHeaders)
    .optional()
    .describe('The header with the API key. Default: authorization, as Bearer'),
  headers: headers.optional().describe('Fixed headers of every call, without secrets'),
  query: query.optional().describe('Fixed parameters of every address that is called, without secrets'),
  ca_file: filePath
    .optional()
    .describe(
      'A file with the certificates (PEM) of the authorities that are trusted for the backend, instead of the usual ones',
    ),
  client_cert_file: filePath.optional().describe('A file with the certificate (PEM) that workers show to the backend'),
  client_key_file: filePath.optional().describe('A file with the private key (PEM) of client_cert_file'),
  health: z
    .string()
    .regex(
      /^(?:models|health|ready|\/[!-"$-~]{0,255})$/,
      'expected models, health, ready, or a path that begins with /',
    )
    .optional()
    .describe(
      'What tests its health: models (below url), health or ready (/health or /ready of the server), or a path of the server. Default: models',
    ),
  whole_as_stream: z.boolean().optional().describe('false: answers that are not streamed are not requested as streams'),
  usage_in_chunks: z
    .boolean()
    .optional()
    .describe(
      'Asks for the usage in every chunk of a stream, so that one that ends early is charged exactly (vLLM, SGLang)',
    ),
  output_limit_field: z
    .enum(['max_tokens', 'max_completion_tokens'])
    .optional()
    .describe('The only field for the output limit that is sent. Default: those that the client has used'),
  context_tokens_max: positive
    .max(1_000_000_000)
    .optional()
    .describe('Tokens of its context, prompt and output together. Default: what it reports'),
  cache_salt: z
    .boolean()
    .optional()
    .describe('Sends a salt for each account, so that accounts do not share cached prompts'),
  priority: z.boolean().optional().describe('Sends the priority of the plan'),
  weight: z
    .int()
    .min(0)
    .max(100)
    .optional()
    .describe('Its part of the requests beside other backends, relative to their weights; 0: none. Default: 1'),
  relay_messages: z
    .boolean()
    .optional()
    .describe('false: clients get a fixed sentence instead of the messages of the backend'),
});

/** The plan file as its text has it: names in snake case, units in the names. */

const name = z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._:/@-]{0,127}$/, 'expected a name of letters, digits and ._:/@-');
// A pool is a name in `POOLS`, where commas separate names.
const poolName = z.string().regex(/^[a-z0-9][a-z0-9-]{0,62}$/, 'expected a name of lower-case letters, digits and -');
const milliseconds = z.int().positive().max(86_400_000);

/** The only plan of devices. */
export const guestPlan = 'guest-device';

/** A lower priority is served first; the first is the default of a plan. */
export const usualPriority = 1_000;
export const priorityMax = 2_097_151;

/** An omitted limit means unlimited (contract.md#t6-limits-of-a-plan). */
const plan = z.strictObject({
  requests_per_minute: positive.optional().describe('Requests of an account per minute'),
  tokens_per_minute: positive
    .optional()
    .describe('Tokens of an account per minute: of prompts, and of the output that requests may produce'),
  tokens_per_month: positive.optional().describe('The quota: tokens of an account per calendar month, UTC'),
  overage: z
    .enum(['self-service', 'operator'])
    .default('self-service')
    .describe('Who turns overage on and off: the account itself, too, or only operators'),
  overage_tokens_per_month: positive
    .optional()
    .describe('The most overage of an account per calendar month, if overage is on'),
  requests_per_day: positive.optional().describe('Requests of an account per day, UTC'),
  requests_at_once: positive.optional().describe('Requests of an account that wait or run'),
  batch_requests_at_once: positive.optional().describe('Lines of batches of an account that run at once'),
  batch_tokens_waiting: positive.optional().describe('Tokens that the unfinished batches of an account may hold'),
  priority: z.int().min(1).max(priorityMax).default(usualPriority).describe('Requests with a lower priority run first'),
  model_tiers: z.array(name).min(1).describe('Tiers of models that the plan includes'),
});

const fieldName = z.string().regex(/^[A-Za-z_][\w.-]{0,127}$/, 'expected the name of a field, or "default"');

/** `extra_fields` defaults to `[default]` (`shared/endpoints/fields/refused-fields.ts`). */
const model = z.strictObject({
  tier: name.describe('The tier, which plans list in model_tiers'),
  pool: poolName.describe('The pool, which workers list in POOLS'),
  backends: z.array(name).min(1).describe('Names of the backends that serve the model'),
  endpoints: z.array(z.enum(endpointNames)).min(1).default(['chat']).describe('The endpoints that it offers'),
  output_tokens_max: positive
    .max(1_000_000_000)
    .optional()
    .describe('Max output tokens of one choice. Required if one of its endpoints generates text'),
  answer_bytes_max: positive
    .max(67_108_864)
    .optional()
    .describe('Bytes of one answer that is not streamed. Default: 4194304, of embeddings 16777216'),
  extra_fields: z
    .array(fieldName)
    .optional()
    .describe('Fields of requests that may reach a backend beyond the published ones. Default: [default]'),
  queue_ms: milliseconds.optional().describe('Time until the job of a request starts. Default: timeouts.queue_ms'),
  clamp_output_tokens: z
    .boolean()
    .optional()
    .describe('true: a larger output limit of a client is lowered to output_tokens_max, instead of a 400'),
  affinity: z
    .enum(affinities)
    .optional()
    .describe(
      'What keeps requests at one on-prem backend, whose prefix cache is then used: the beginning of the prompt, the account, or nothing. Default: prefix',
    ),
  extra_tools: z.array(name).optional().describe('Types of tools that requests may have beyond function and custom'),
  unknown_fields: z
    .enum(['refuse', 'drop'])
    .optional()
    .describe('What happens to fields that no description and no model server has. Default: refuse'),
});

const pebibyte = 1_125_899_906_842_624;

const batch = z.strictObject({
  window_s: positive.default(86_400).describe('Seconds until a batch expires'),
  requests_max: positive.max(50_000).default(50_000).describe('Lines of an input file'),
  file_bytes_max: positive.max(104_857_600).default(104_857_600).describe('Bytes of an input file'),
  account_bytes_max: positive
    .max(pebibyte)
    .default(10_737_418_240)
    .describe('Bytes of all files and results of an account'),
  account_files_max: positive.max(1_000_000).default(10_000).describe('Files of an account'),
  files_kept_days: positive.default(30).describe('Days until a file is deleted'),
  upload_bytes_per_second_min: positive.max(1_048_576).default(1_024).describe('Minimum rate of an upload'),
});

const timeouts = z.strictObject({
  connect_ms: milliseconds.default(2_000).describe('Time to connect to a backend'),
  first_token_ms: milliseconds.default(30_000).describe('Time until the first token of a stream'),
  idle_ms: milliseconds.default(30_000).describe('Time between two events of a stream'),
  request_ms: milliseconds.default(600_000).describe('Time of a request in total'),
  queue_ms: milliseconds.default(30_000).describe('Time until the job of a request starts'),
});

export const planFileSchema = z.strictObject({
  default_plan: name.describe('The plan of new accounts'),
  guest_calls_per_minute: positive.default(60).describe('Calls for guest keys from one network per minute'),
  guest_mints_per_hour: positive.default(20).describe('New devices from one network per hour'),
  guest_mints_per_hour_total: positive
    .optional()
    .describe('New devices from all networks per hour. Left out: no limit'),
  // If a device was removed earlier, it could still have tokens that count in this month.
  guest_days_kept: positive
    .min(62)
    .max(36_500)
    .default(400)
    .describe('Days without use after which a device is removed'),
  usage_months_kept: positive.default(24).describe('Closed months whose usage is kept'),
  media_hosts: z
    .array(z.string().refine(isMediaHost, 'expected "*", "*.example.com", or a host name in lower case, no IP address'))
    .default([])
    .describe('Hosts of images, audio and files that requests may name'),
  plans: z
    .record(name, plan)
    .describe('Plans by name. A limit that is left out does not apply. guest-device is required'),
  models: z.record(name, model).describe('Models by the names that clients use'),
  aliases: z.record(name, name).default({}).describe('Other names of models'),
  backends: z.record(name, backendSchema).describe('Backends by name'),
  batch: batch.prefault({}).describe('Bounds of files and batches'),
  timeouts: timeouts.prefault({}).describe('Time limits in milliseconds'),
  ...priceFields,
});

export type RawPlanFile = z.infer<typeof planFileSchema>;
