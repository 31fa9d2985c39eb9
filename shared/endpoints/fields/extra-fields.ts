/**
 * Top-level fields beyond OpenAI's that reach a backend by default. Model servers document them (vLLM, SGLang, llama.cpp, Text Generation
 * Inference). They change only the response to their own request: they affect no other request, no address, no code, and cost no more than
 * is reserved. All of them mean the same in a stream.
 */
export const defaultExtraFields: readonly string[] = [
  // Sampling.
  ...['top_k', 'top_a', 'min_p', 'typical_p', 'top_n_sigma', 'min_keep', 'length_penalty', 'bad_words'],
  ...['repetition_penalty', 'repeat_penalty', 'repeat_last_n', 'allowed_token_ids', 'dynatemp_range'],
  ...['dynatemp_exponent', 'mirostat', 'mirostat_tau', 'mirostat_eta', 'xtc_probability', 'xtc_threshold'],
  ...['dry_multiplier', 'dry_base', 'dry_allowed_length', 'dry_penalty_last_n', 'dry_sequence_breakers'],
  // Where the output ends, within its limit.
  ...['stop_token_ids', 'include_stop_str_in_output', 'ignore_eos', 'min_tokens', 'no_stop_trim'],
  // Conversion of messages to a prompt, and of tokens to text.
  ...['chat_template_kwargs', 'add_generation_prompt', 'continue_final_message', 'add_special_tokens', 'documents'],
  ...['truncate_prompt_tokens', 'truncation_side', 'skip_special_tokens', 'spaces_between_special_tokens'],
  // Reasoning.
  ...['enable_thinking', 'thinking', 'thinking_budget', 'thinking_token_budget', 'include_reasoning'],
  ...['separate_reasoning', 'stream_reasoning', 'reasoning_format', 'reasoning'],
  // Format of the output. The cost of a client's regular expression or grammar is unbounded, so a schema may have no `pattern`.
  ...['guided_json', 'guided_choice', 'json_schema', 'structured_outputs', 'response_format.json'],
];

/**
 * Fields of model servers that no client may use by default. With them a client could overtake other requests or read their cache
 * (`priority`, `cache_salt`, `request_id`), make the server run templates, code or expressions, load or fetch data, or generate more than
 * is reserved. Any other unlisted field is refused as well; metrics count these by name.
 */
const refusedFields: readonly string[] = [
  ...['priority', 'cache_salt', 'extra_key', 'request_id', 'rid', 'id_slot', 'session_id', 'session_params'],
  ...[
    'chat_template',
    'logits_processors',
    'custom_logit_processor',
    'custom_params',
    'vllm_xargs',
    'lora',
    'lora_path',
  ],
  ...['guided_regex', 'guided_grammar', 'guided_decoding_backend', 'guided_whitespace_pattern', 'structural_tag'],
  ...['regex', 'ebnf', 'grammar', 'stop_regex', 'kv_transfer_params', 'ec_transfer_params', 'mm_processor_kwargs'],
  ...['media_io_kwargs', 'bootstrap_host', 'bootstrap_port', 'bootstrap_room', 'data_parallel_rank', 'routed_dp_rank'],
  ...[
    'input_ids',
    'keep_alive',
    'best_of',
    'n_cmpl',
    'use_beam_search',
    'num_beams',
    'num_return_sequences',
    'n_probs',
  ],
  ...['prompt_logprobs', 'echo', 'return_token_ids', 'cache_prompt', 'n_predict', 'num_predict'],
  ...['max_new_tokens', 'max_output_tokens', 'extra_body', 'options', 'parameters', 'sampling_params'],
  ...['generation_config', 'tool_resources', 'provider', 'models', 'route', 'transforms', 'plugins'],
];

const known = new Set([...defaultExtraFields, ...refusedFields]);

/**
 * Returns the name under which a refused field is counted. Clients choose names, so a name that model servers do not know counts as
 * `other`.
 */
export function countedName(field: string): string {
  return known.has(field) ? field : 'other';
}

/** Returns the fields that a model's `extra_fields` allows. The list replaces the default list; `default` in it stands for that list. */
export function allowedExtraFields(listed: readonly string[] = ['default']): ReadonlySet<string> {
  return new Set(listed.flatMap((name) => (name === 'default' ? defaultExtraFields : [name])));
}
