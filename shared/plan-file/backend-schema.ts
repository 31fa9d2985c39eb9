import { z } from 'zod';

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

export const backendSchema = z.strictObject({
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
  relay_messages: z
    .boolean()
    .optional()
    .describe('false: clients get a fixed sentence instead of the messages of the backend'),
});
