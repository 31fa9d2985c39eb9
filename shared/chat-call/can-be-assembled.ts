import type { ChatRequest } from './chat-completion.ts';
import { defaultExtraFields } from './extra-fields.ts';

/**
 * Whether a whole answer may be asked of the backend as a stream: everything the request says means the same there. A field
 * that is not known may not work in a stream (vLLM's `use_beam_search`, `prompt_logprobs`), or come back in parts that cannot
 * be put together (`return_token_ids`), so one is enough to have the request sent as it came.
 */
export function canBeAssembled(request: ChatRequest): boolean {
  const { modalities } = request;
  const isText =
    modalities == null || (Array.isArray(modalities) && modalities.every((modality) => modality === 'text'));
  return isText && Object.keys(request).every((field) => meansTheSame.has(field));
}

/** Of OpenAI's fields, `audio` is left out, which a stream has in another format, and `moderation`, of other results there. */
const openai = [
  ...['model', 'messages', 'stream', 'stream_options', 'modalities', 'n', 'seed', 'stop', 'user', 'store', 'metadata'],
  ...['max_tokens', 'max_completion_tokens', 'temperature', 'top_p', 'presence_penalty', 'frequency_penalty'],
  ...['logit_bias', 'logprobs', 'top_logprobs', 'response_format', 'prediction', 'reasoning_effort', 'verbosity'],
  ...['tools', 'tool_choice', 'parallel_tool_calls', 'functions', 'function_call', 'web_search_options'],
  ...['service_tier', 'safety_identifier', 'prompt_cache_key', 'prompt_cache_options', 'prompt_cache_retention'],
];

/**
 * Other fields by which model servers sample, constrain and template, which happens before there is anything to stream. Sources:
 * `ChatCompletionRequest` of vLLM 0.10 and of SGLang 0.5.9, the README of llama.cpp's server.
 */
const modelServers = [
  ...['chat_template', 'mm_processor_kwargs', 'guided_regex', 'guided_grammar', 'guided_decoding_backend'],
  ...['guided_whitespace_pattern', 'structural_tag', 'regex', 'ebnf', 'grammar', 'stop_regex'],
  ...['cache_salt', 'cache_prompt', 'priority'],
];

const meansTheSame = new Set([...openai, ...defaultExtraFields, ...modelServers]);
