import type { Rule } from './outcome.ts';

/** Backends that are well and do not serve the request now, or do not serve it at all. */
const busy = { outcome: 'busy' } as const;
const loading = { outcome: 'loading', statuses: [503] } as const;

export const busyRules: readonly Rule[] = [
  {
    id: 'loading-llama-cpp',
    engine: 'llama.cpp 2026-10',
    ...loading,
    sentence: /^loading model$/i,
    example: { fault: 'status', status: 503, kinds: ['unavailable_error'], words: 'Loading model' },
  },
  {
    id: 'loading',
    engine: 'Ollama 0.33, TGI 3, Dynamo 1.7, KServe, Hugging Face Inference',
    ...loading,
    sentence:
      /^(?:the )?model(?: (?:with name )?['"`]?[\w.:/@+-]{1,200}['"`]?)? (?:is )?(?:currently |still )?(?:loading|being loaded|starting(?: up)?|not (?:yet )?(?:loaded|ready)(?: yet)?)(?:[.,;] ?(?:please )?(?:wait|retry|try again)(?: later| shortly| in a (?:moment|minute|few \w{1,10}))?)?[.!]?$/i,
    example: { fault: 'status', status: 503, words: 'Model llama is currently loading' },
  },
  {
    id: 'too-many-requests',
    engine: 'any; TGI 3: `overloaded`',
    ...busy,
    statuses: [429],
    example: { fault: 'status', status: 429, kinds: ['overloaded'], words: 'Model is overloaded' },
  },
  {
    id: 'overloaded',
    engine: 'Anthropic, Dynamo 1.7',
    ...busy,
    statuses: [529],
    example: { fault: 'status', status: 529, kinds: ['overloaded_error'], words: 'Overloaded' },
  },
  {
    id: 'queue-full-vllm',
    engine: 'vLLM 0.33, --max-num-queued-reqs',
    ...busy,
    statuses: [503],
    sentence:
      /^the engine is currently busy and cannot accept new requests\. please try again later or on a different instance\.$/i,
    example: {
      fault: 'status',
      status: 503,
      kinds: ['service unavailable'],
      words:
        'The engine is currently busy and cannot accept new requests. Please try again later or on a different instance.',
    },
  },
  {
    id: 'backlog-full-vllm',
    engine: 'vLLM 0.33, --max-num-queued-tokens',
    ...busy,
    statuses: [503],
    sentence:
      /^the engine has reached its prefill token backlog limit\. please try again later or on a different instance\.$/i,
    example: {
      fault: 'status',
      status: 503,
      kinds: ['service unavailable'],
      words:
        'The engine has reached its prefill token backlog limit. Please try again later or on a different instance.',
    },
  },
  {
    id: 'queue-full-sglang',
    engine: 'SGLang 0.5.23, --max-queued-requests',
    ...busy,
    statuses: [503],
    sentence: /^the request queue is full\.?$/i,
    example: { fault: 'said', status: 503, words: 'The request queue is full.' },
  },
  {
    id: 'waited-too-long-sglang',
    engine: 'SGLang 0.5.23',
    ...busy,
    statuses: [503],
    sentence: /^(?:request waiting timeout reached|the request is aborted by a higher priority request)\.?$/i,
    example: { fault: 'said', status: 503, words: 'Request waiting timeout reached.' },
  },
  {
    id: 'queue-full-ollama',
    engine: 'Ollama 0.33, OLLAMA_MAX_QUEUE',
    ...busy,
    statuses: [503],
    sentence: /^server busy, please try again\.\s+maximum pending requests exceeded$/i,
    example: {
      fault: 'status',
      status: 503,
      words: 'server busy, please try again.  maximum pending requests exceeded',
    },
  },
  {
    id: 'no-slot-llama-cpp',
    engine: 'llama.cpp 2026-10',
    ...busy,
    statuses: [503],
    sentence: /^no slots? (?:is |are )?available\.?$/i,
    example: { fault: 'status', status: 503, kinds: ['unavailable_error'], words: 'no slot available' },
  },
  {
    id: 'overloaded-by-kind',
    engine: 'Anthropic, TGI 3, OpenAI API, Dynamo 1.2',
    ...busy,
    statuses: [503],
    kinds: [
      'overloaded_error',
      'overloaded',
      'engine_overloaded',
      'slow_down',
      'resource_exhausted',
      'rate_limit_exceeded',
    ],
    example: { fault: 'status', status: 503, kinds: ['overloaded_error'], words: 'Overloaded' },
  },
  {
    // Temporary overload or maintenance, for as long as it says (RFC 9110, 15.6.4).
    id: 'asks-to-wait',
    engine: 'proxies',
    ...busy,
    statuses: [503],
    asksToWait: true,
    example: { fault: 'status', status: 503, retryAfterMs: 2_000 },
  },
  {
    id: 'no-such-route',
    engine: 'any; llama.cpp 2026-10: 501 for what it lacks',
    outcome: 'not_offered',
    statuses: [404, 405, 501],
    example: { fault: 'status', status: 404, kinds: ['notfounderror'], words: 'The model `other` does not exist.' },
  },
];

/** Calls without a status that says anything, and answers that break off. */
export const connectionRules: readonly Rule[] = [
  {
    id: 'no-connection-in-time',
    engine: 'any',
    outcome: 'failed',
    faults: ['connect_timeout'],
    evidence: 'backend',
    example: { fault: 'connect_timeout', wasSent: false },
  },
  {
    id: 'no-connection',
    engine: 'any',
    outcome: 'failed',
    faults: ['connection'],
    wasSent: false,
    evidence: 'backend',
    example: { fault: 'connection', wasSent: false },
  },
  {
    id: 'closed-before-answer',
    engine: 'any',
    outcome: 'failed',
    faults: ['connection'],
    evidence: 'request',
    isLoss: true,
    example: { fault: 'connection', wasSent: true },
  },
  {
    id: 'silent',
    engine: 'any',
    outcome: 'failed',
    faults: ['first_token_timeout', 'idle_timeout'],
    evidence: 'silence',
    example: { fault: 'first_token_timeout' },
  },
  {
    id: 'unreadable',
    engine: 'any',
    outcome: 'failed',
    faults: ['unreadable'],
    evidence: 'request',
    example: { fault: 'unreadable' },
  },
  {
    // vLLM 0.33 ends its streams like that when it is stopped: `finish_reason: "abort"`, then `[DONE]`.
    id: 'ended-early',
    engine: 'any',
    outcome: 'interrupted',
    faults: ['interrupted'],
    evidence: 'request',
    example: { fault: 'interrupted' },
  },
  {
    id: 'silent-after-text',
    engine: 'any',
    outcome: 'interrupted',
    faults: ['idle_timeout', 'first_token_timeout'],
    afterText: true,
    evidence: 'silence',
    example: { fault: 'idle_timeout', hasText: true },
  },
  {
    id: 'broke-off',
    engine: 'any',
    outcome: 'interrupted',
    faults: ['connection', 'unreadable', 'interrupted', 'said', 'status'],
    afterText: true,
    evidence: 'request',
    example: { fault: 'said', kinds: ['server_error'], hasText: true },
  },
];

/**
 * The operator's own account at a backend: its key, its credit, its region. Whole sentences only: a message of a client that a backend
 * quotes must pause nothing (contract.md#ms5-the-operators-account).
 */
const refusesAccount = { outcome: 'failed', statuses: [400, 429], evidence: 'operator, if two' } as const;

export const operatorRules: readonly Rule[] = [
  {
    id: 'moderation',
    engine: 'OpenRouter 2026-11, OpenAI API',
    outcome: 'refused',
    statuses: [403],
    kinds: ['content_policy_violation', 'content_filter', 'moderation_blocked', 'moderation', 'flagged'],
    example: { fault: 'status', status: 403, kinds: ['content_policy_violation'], words: 'The prompt was flagged.' },
  },
  {
    id: 'moderation-by-words',
    engine: 'OpenRouter 2026-11',
    outcome: 'refused',
    statuses: [403],
    sentence: /\b(?:requires moderation|was flagged|flagged (?:for|by)|content (?:policy|moderation))/i,
    example: { fault: 'status', status: 403, words: 'The model requires moderation. Your input was flagged.' },
  },
  {
    id: 'key-or-payment',
    engine: 'any',
    outcome: 'failed',
    statuses: [401, 402, 403],
    evidence: 'operator',
    example: { fault: 'status', status: 401, kinds: ['invalid_api_key'], words: 'Incorrect API key provided.' },
  },
  {
    id: 'account-by-code',
    engine: 'OpenAI API, Azure OpenAI, Anthropic, DeepSeek, Moonshot, DashScope, Volcengine Ark, 2026-11',
    ...refusesAccount,
    kinds: [
      ...[
        'insufficient_quota',
        'billing_hard_limit_reached',
        'billing_not_active',
        'billing_error',
        'account_deactivated',
      ],
      ...[
        'insufficient_balance',
        'insufficient_credits',
        'exceeded_current_quota_error',
        'accountoverdueerror',
        'arrearage',
      ],
      ...['invalid_api_key', 'access_terminated', 'authentication_error', 'permission_error', 'api_key_invalid'],
      ...['unsupported_country_region_territory', 'failed_precondition', 'quotaexceeded', 'quota_exceeded'],
    ],
    example: { fault: 'status', status: 429, kinds: ['insufficient_quota'], words: 'You exceeded your current quota.' },
  },
  {
    id: 'credit-anthropic',
    engine: 'Anthropic 2026-11',
    ...refusesAccount,
    sentence:
      /^your credit balance is too low to access the (?:anthropic |claude )?api\. please go to plans & billing to upgrade or purchase credits\.$/i,
    example: {
      fault: 'status',
      status: 400,
      kinds: ['invalid_request_error'],
      words:
        'Your credit balance is too low to access the API. Please go to Plans & Billing to upgrade or purchase credits.',
    },
  },
  {
    id: 'spending-limit-anthropic',
    engine: 'Anthropic 2026-11',
    ...refusesAccount,
    sentence:
      /^you have reached your specified (?:workspace )?api usage limits\. you will regain access on \d{4}-\d{2}-\d{2} at \d{2}:\d{2} utc\.$/i,
    example: {
      fault: 'status',
      status: 400,
      kinds: ['invalid_request_error'],
      words: 'You have reached your specified API usage limits. You will regain access on 2026-12-01 at 00:00 UTC.',
    },
  },
  {
    id: 'key-gemini',
    engine: 'Gemini API 2026-11',
    ...refusesAccount,
    sentence: /^(?:api key not valid\. please pass a valid api key\.|api key expired\. please renew the api key\.)$/i,
    example: {
      fault: 'status',
      status: 400,
      kinds: ['invalid_argument'],
      words: 'API key not valid. Please pass a valid API key.',
    },
  },
  {
    id: 'region-gemini',
    engine: 'Gemini API 2026-11',
    ...refusesAccount,
    sentence: /^user location is not supported for the api use\.$/i,
    example: { fault: 'status', status: 400, words: 'User location is not supported for the API use.' },
  },
];

/** What is left is the backend's failure. */
const failed = { outcome: 'failed', evidence: 'request' } as const;

export const statusRules: readonly Rule[] = [
  {
    id: 'server-error',
    engine: 'any',
    ...failed,
    statuses: [500, 502],
    isLoss: true,
    example: { fault: 'status', status: 500, words: 'CUDA error: an illegal memory access was encountered' },
  },
  {
    id: 'other-status',
    engine: 'any',
    ...failed,
    faults: ['status'],
    example: { fault: 'status', status: 504 },
  },
  {
    // An error in a 200 that says nothing that is known.
    id: 'unknown-error',
    engine: 'any',
    ...failed,
    faults: ['said'],
    isLoss: true,
    example: { fault: 'said', words: 'something went wrong' },
  },
];
