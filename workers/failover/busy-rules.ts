import type { Rule } from './rule.ts';

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
