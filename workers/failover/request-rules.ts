import type { Rule } from './outcome.ts';

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

/**
 * Prompts that do not fit into the context, with or without the output limit. Numbers are found by the names of their groups: `prompt`,
 * `context`, `output` (the limit of the request) and `total` (prompt and limit).
 */
const tooLong = { outcome: 'too_long', statuses: [400, 413, 422, 500] } as const;
const n = '(\\d[\\d,]*)';
/** `{prompt}` stands for a number with this name. */
function sentence(text: string): RegExp {
  return new RegExp(
    text.replace(/\{(\w+)\}/g, (_, name: string) => `(?<${name}>${n.slice(1)}`),
    'is',
  );
}

export const contextRules: readonly Rule[] = [
  {
    id: 'limit-vllm',
    engine: 'vLLM 0.33',
    ...tooLong,
    sentence: sentence(
      "^'?max_(?:completion_)?tokens'?.* is too large: {output}\\. this model's maximum context length is {context} tokens and your request has {prompt} input tokens",
    ),
    example: {
      fault: 'status',
      status: 400,
      kinds: ['badrequesterror'],
      words:
        "'max_tokens' or 'max_completion_tokens' is too large: 4096. This model's maximum context length is 8192 tokens and your request has 5000 input tokens.",
    },
  },
  {
    id: 'requested-openai',
    engine: 'OpenAI API, vLLM 0.6, OpenRouter, DeepSeek',
    ...tooLong,
    sentence: sentence(
      'maximum context length is {context} tokens\\. however, you requested (?:about )?{total} tokens \\({prompt} (?:in the messages|of text input|in your prompt|input tokens)',
    ),
    example: {
      fault: 'status',
      status: 400,
      words:
        "This model's maximum context length is 8192 tokens. However, you requested 9500 tokens (5500 in the messages, 4000 in the completion).",
    },
  },
  {
    id: 'prompt-openai',
    engine: 'OpenAI API, vLLM 0.33',
    ...tooLong,
    sentence: sentence(
      'maximum context length is {context} tokens\\. however, your (?:messages resulted in|prompt contains|request has|input is)(?: at least)? {prompt}',
    ),
    example: {
      fault: 'status',
      status: 400,
      kinds: ['invalid_request_error', 'context_length_exceeded'],
      words: "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens.",
    },
  },
  {
    id: 'input-vllm',
    engine: 'vLLM 0.33',
    ...tooLong,
    sentence: sentence("input length \\({prompt}\\) exceeds model's maximum context length \\({context}\\)"),
    example: {
      fault: 'status',
      status: 400,
      words: "Input length (9001) exceeds model's maximum context length (8192).",
    },
  },
  {
    id: 'longer-vllm',
    engine: 'vLLM 0.33',
    ...tooLong,
    sentence: sentence('\\(length {prompt}\\) is longer than the maximum model length of {context}'),
    example: {
      fault: 'status',
      status: 400,
      words: 'The decoder prompt (length 9001) is longer than the maximum model length of 8192.',
    },
  },
  {
    id: 'input-sglang',
    engine: 'SGLang 0.5.23',
    ...tooLong,
    sentence: sentence("input \\({prompt} tokens\\) is longer than the model's context length \\({context} tokens\\)"),
    example: {
      fault: 'said',
      status: 400,
      kinds: ['badrequesterror'],
      words: "The input (9001 tokens) is longer than the model's context length (8192 tokens).",
    },
  },
  {
    id: 'requested-sglang',
    engine: 'SGLang 0.5.23',
    ...tooLong,
    sentence: sentence(
      "requested token count exceeds the model's maximum context length(?: of {context} tokens)?(?:\\. you requested a total of {total} tokens: {prompt} tokens from the input)?",
    ),
    example: {
      fault: 'status',
      status: 400,
      words:
        "Requested token count exceeds the model's maximum context length of 8192 tokens. You requested a total of 9500 tokens: 5500 tokens from the input messages and 4000 tokens for the completion.",
    },
  },
  {
    id: 'context-llama-cpp',
    engine: 'llama.cpp 2026-10',
    ...tooLong,
    kinds: ['exceed_context_size_error'],
    example: {
      fault: 'status',
      status: 400,
      kinds: ['exceed_context_size_error'],
      words: 'the request exceeds the available context size, try increasing it',
    },
  },
  {
    id: 'context-llama-cpp-words',
    engine: 'llama.cpp 2026-10',
    ...tooLong,
    sentence: sentence(
      'request(?: \\({prompt} tokens\\))? exceeds the available context size(?: \\({context} tokens\\))?',
    ),
    example: {
      fault: 'said',
      status: 400,
      words: 'request (9001 tokens) exceeds the available context size (8192 tokens), try increasing it',
    },
  },
  {
    id: 'input-tgi',
    engine: 'TGI 3',
    ...tooLong,
    sentence: sentence(
      '`inputs` tokens \\+ `max_new_tokens` must be <= {context}\\. given: {prompt} `inputs` tokens and {output} `max_new_tokens`',
    ),
    example: {
      fault: 'status',
      status: 422,
      kinds: ['validation'],
      words:
        'Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8192. Given: 5500 `inputs` tokens and 4000 `max_new_tokens`',
    },
  },
  {
    id: 'prompt-tgi',
    engine: 'TGI 3',
    ...tooLong,
    sentence: sentence('`inputs` must have less than {context} tokens\\. given: {prompt}'),
    example: {
      fault: 'status',
      status: 422,
      kinds: ['validation'],
      words: 'Input validation error: `inputs` must have less than 8191 tokens. Given: 9001',
    },
  },
  {
    id: 'prompt-anthropic',
    engine: 'Anthropic 2026-11',
    ...tooLong,
    sentence: sentence('prompt is too long(?:: {prompt} tokens > {context} maximum)?'),
    example: {
      fault: 'said',
      status: 400,
      kinds: ['invalid_request_error'],
      words: 'prompt is too long: 209303 tokens > 200000 maximum',
    },
  },
  {
    id: 'limit-anthropic',
    engine: 'Anthropic 2026-11',
    ...tooLong,
    sentence: sentence('input length and `?max_tokens`? exceed context limit: {prompt} \\+ {output} > {context}'),
    example: {
      fault: 'status',
      status: 400,
      kinds: ['invalid_request_error'],
      words:
        'input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease input length or `max_tokens` and try again',
    },
  },
  {
    id: 'input-gemini',
    engine: 'Gemini API 2026-11',
    ...tooLong,
    sentence: sentence(
      'input token count(?: \\({prompt}\\))? exceeds the maximum number of tokens allowed \\(?{context}',
    ),
    example: {
      fault: 'status',
      status: 400,
      kinds: ['invalid_argument'],
      words: 'The input token count (1100000) exceeds the maximum number of tokens allowed (1048576).',
    },
  },
  {
    id: 'prompt-mistral',
    engine: 'Mistral 2026-11',
    ...tooLong,
    sentence: sentence(
      'prompt contains {prompt} tokens.{0,40}too large for model with {context} maximum context length',
    ),
    example: {
      fault: 'status',
      status: 400,
      kinds: ['invalid_request_prompt'],
      words: 'Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length',
    },
  },
  {
    id: 'context-code',
    engine: 'OpenAI API',
    ...tooLong,
    kinds: ['context_length_exceeded', 'context_window_exceeded', 'model_max_prompt_tokens_exceeded'],
    example: {
      fault: 'said',
      kinds: ['context_length_exceeded'],
      status: 400,
      words: 'Your input exceeds the context window of this model.',
    },
  },
  {
    id: 'context-words',
    engine: 'Ollama 0.33, Bedrock, OpenAI API',
    ...tooLong,
    sentence:
      /input (?:length )?exceeds (?:the )?(?:maximum )?context (?:length|window)|input is too long for (?:the )?requested model/i,
    example: { fault: 'status', status: 400, words: 'the input length exceeds the context length' },
  },
];
