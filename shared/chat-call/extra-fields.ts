/**
 * Top-level fields beyond OpenAI's that reach a backend unless the plan file says otherwise. Model servers document them (vLLM,
 * SGLang, llama.cpp, Text Generation Inference), and they change the answer to the request that holds them, nothing else: no other
 * request, no address, no code, and no cost beyond what is reserved. All of them mean the same in a stream.
 */
export const defaultExtraFields: readonly string[] = [
  // How tokens are chosen.
  ...['top_k', 'top_a', 'min_p', 'typical_p', 'top_n_sigma', 'min_keep', 'length_penalty', 'bad_words'],
  ...['repetition_penalty', 'repeat_penalty', 'repeat_last_n', 'allowed_token_ids', 'dynatemp_range'],
  ...['dynatemp_exponent', 'mirostat', 'mirostat_tau', 'mirostat_eta', 'xtc_probability', 'xtc_threshold'],
  ...['dry_multiplier', 'dry_base', 'dry_allowed_length', 'dry_penalty_last_n', 'dry_sequence_breakers'],
  // Where the answer ends, within its limit.
  ...['stop_token_ids', 'include_stop_str_in_output', 'ignore_eos', 'min_tokens', 'no_stop_trim'],
  // How messages become a prompt, and tokens text.
  ...['chat_template_kwargs', 'add_generation_prompt', 'continue_final_message', 'add_special_tokens', 'documents'],
  ...['truncate_prompt_tokens', 'truncation_side', 'skip_special_tokens', 'spaces_between_special_tokens'],
  // Reasoning.
  ...['enable_thinking', 'thinking', 'thinking_budget', 'thinking_token_budget', 'include_reasoning'],
  ...['separate_reasoning', 'stream_reasoning', 'reasoning_format', 'reasoning'],
  // The form of the answer. The cost of a client's regular expression or grammar is not bounded, so a schema may have no `pattern`.
  ...['guided_json', 'guided_choice', 'json_schema', 'structured_outputs', 'response_format.json'],
];

/**
 * Fields that model servers know and that no client may use by default: with them a client takes the turn of others or reads what
 * they have cached (`priority`, `cache_salt`, `request_id`), has the server run templates, code or expressions, load or fetch things,
 * or produce more than is reserved. Anything else that is not listed is refused as well; these are told apart in metrics.
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

/** The name under which a refused field is counted: clients choose names, so one that model servers do not know is `other`. */
export function countedName(field: string): string {
  return known.has(field) ? field : 'other';
}

/** What a model's `extra_fields` allows: the list replaces the default one, for which `default` stands in it. */
export function allowedExtraFields(listed: readonly string[] = ['default']): ReadonlySet<string> {
  return new Set(listed.flatMap((name) => (name === 'default' ? defaultExtraFields : [name])));
}
