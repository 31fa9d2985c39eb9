import type { Rule } from './rule.ts';

/** The request is at fault: another backend would say the same. */
const refused = { outcome: 'refused' } as const;

export const requestRules: readonly Rule[] = [
  {
    id: 'both-limits-openai',
    engine: 'OpenAI API, Volcengine Ark, 2026-11',
    ...refused,
    statuses: [400],
    sentence: /^setting '(?<field>max_tokens)' and 'max_completion_tokens' at the same time is not supported\.?$/i,
    example: {
      fault: 'status',
      status: 400,
      kinds: ['invalid_request_error', 'invalid_parameter_combination'],
      words: "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.",
    },
  },
  {
    id: 'limit-field-openai',
    engine: 'OpenAI API, Azure OpenAI, 2026-11',
    ...refused,
    statuses: [400],
    sentence:
      /^unsupported parameter: '(?<field>max_tokens|max_completion_tokens)' is not supported with this model\. use '\w+' instead\.$/i,
    example: {
      fault: 'status',
      status: 400,
      kinds: ['unsupported_parameter', 'invalid_request_error'],
      words:
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
    },
  },
  {
    id: 'limit-field-fastapi',
    engine: 'servers with FastAPI, Mistral 2026-11',
    ...refused,
    statuses: [400, 422],
    sentence: /^body\.(?<field>max_tokens|max_completion_tokens): extra (?:inputs are|fields) not permitted$/i,
    example: { fault: 'status', status: 422, words: 'body.max_completion_tokens: Extra inputs are not permitted' },
  },
  {
    id: 'too-large-llama-cpp',
    engine: 'llama.cpp 2026-10',
    ...refused,
    statuses: [500],
    sentence: /\btoo large to process\b/i,
    example: {
      fault: 'status',
      status: 500,
      kinds: ['server_error'],
      words: 'input (1502 tokens) is too large to process. increase the physical batch size (current batch size: 512)',
    },
  },
  {
    id: 'no-media-llama-cpp',
    engine: 'llama.cpp 2026-10',
    ...refused,
    statuses: [500],
    sentence: /\b(?:image|audio|video) input is not supported\b/i,
    example: {
      fault: 'status',
      status: 500,
      kinds: ['server_error'],
      words: 'image input is not supported - hint: if this is unexpected, you may need to provide the mmproj',
    },
  },
  {
    id: 'broken-media',
    engine: 'llama.cpp 2026-10, vLLM 0.33',
    ...refused,
    statuses: [500],
    sentence:
      /\b(?:failed to load (?:the )?(?:image|audio|video)|cannot identify image file|invalid (?:image|audio) data)\b/i,
    example: { fault: 'status', status: 500, words: 'Failed to load image or audio file' },
  },
  {
    id: 'tool-arguments-llama-cpp',
    engine: 'llama.cpp 2026-10',
    ...refused,
    statuses: [500],
    sentence: /\bfailed to parse tool call arguments as json\b/i,
    example: {
      fault: 'status',
      status: 500,
      words: 'Failed to parse tool call arguments as JSON: parse error at line 1',
    },
  },
  {
    id: 'invalid',
    engine: 'any',
    ...refused,
    statuses: [400, 413, 422],
    example: { fault: 'status', status: 422, words: 'body.messages.0.role: Input should be user or assistant' },
  },
];
