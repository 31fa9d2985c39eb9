/** Fields that a backend gets only if the model's `extra_fields` lists them. `published`: where they are documented. */
type RefusedFields = { fields: readonly string[]; published: string; because: string };

/** The description of these fields for clients. */
export const refusedByDefault = 'Refused unless the operator has allowed it for the model.';

/** Fields of a published description that spend the operator's money or reach beyond the model. */
export const refusedPublishedFields: readonly RefusedFields[] = [
  {
    fields: ['web_search_options'],
    published: 'OpenAI, chat completions',
    because: 'the provider searches the web, and bills each search',
  },
  { fields: ['speed'], published: 'Anthropic, messages (beta)', because: 'a faster mode has a higher price' },
  { fields: ['inference_geo'], published: 'Anthropic, messages', because: 'some regions have a higher price' },
  {
    fields: ['container'],
    published: 'Anthropic, messages',
    because:
      "the request runs code in a container of the operator's account, which is billed and has the files of others",
  },
  {
    fields: ['thread'],
    published: 'Anthropic, messages (beta)',
    because: "the provider keeps the conversation in the operator's account",
  },
  {
    fields: ['prompt.id'],
    published: 'OpenAI, responses',
    because: "it names a prompt of the operator's account, which others have written",
  },
];

/** Types of content parts that no published description has, or that reach beyond the request. */
export const refusedParts: readonly RefusedFields[] = [
  {
    fields: [
      'image_embeds',
      'audio_embeds',
      'video_embeds',
      'prompt_embeds',
      'image_pil',
      'processor_output',
      'precomputed_embedding',
    ],
    published: 'vLLM, SGLang',
    because: 'the server loads a tensor, whose shape and code it does not check',
  },
  {
    fields: ['container_upload'],
    published: 'Anthropic, messages',
    because: "it names a file of the operator's account",
  },
];

/**
 * Fields of model servers that are in no published description and not in the default list. Any other unlisted field is refused as well;
 * metrics count these by name.
 */
export const refusedEngineFields: readonly RefusedFields[] = [
  {
    fields: ['priority'],
    published: 'vLLM, SGLang',
    because: 'the request overtakes others',
  },
  {
    fields: ['cache_salt', 'extra_key', 'request_id', 'rid', 'id_slot', 'session_id', 'session_params', 'cache_prompt'],
    published: 'vLLM, SGLang, llama.cpp',
    because: "the request reads the cache of others, or ends another's",
  },
  {
    fields: [
      'chat_template',
      'logits_processors',
      'custom_logit_processor',
      'custom_params',
      'vllm_xargs',
      'lora',
      'lora_path',
    ],
    published: 'vLLM, SGLang, llama.cpp',
    because: 'the server runs or loads what the client names',
  },
  {
    fields: [
      ...['guided_regex', 'guided_grammar', 'guided_decoding_backend', 'guided_whitespace_pattern', 'structural_tag'],
      ...['regex', 'ebnf', 'grammar', 'stop_regex'],
    ],
    published: 'vLLM, SGLang, llama.cpp, Text Generation Inference',
    because: "the cost of a client's regular expression or grammar is unbounded",
  },
  {
    fields: [
      ...['kv_transfer_params', 'ec_transfer_params', 'mm_processor_kwargs', 'media_io_kwargs', 'bootstrap_host'],
      ...['bootstrap_port', 'bootstrap_room', 'data_parallel_rank', 'routed_dp_rank', 'keep_alive'],
    ],
    published: 'vLLM, SGLang, Ollama',
    because: 'the server fetches data, or places the request where the client says',
  },
  {
    fields: [
      ...['best_of', 'n_cmpl', 'use_beam_search', 'num_beams', 'num_return_sequences', 'n_probs', 'prompt_logprobs'],
      ...['echo', 'return_token_ids', 'input_ids', 'n_predict', 'num_predict', 'max_new_tokens', 'max_output_tokens'],
    ],
    published: 'vLLM, SGLang, llama.cpp, Ollama',
    because: 'the server produces more than is reserved',
  },
  {
    fields: [
      ...['extra_body', 'options', 'parameters', 'sampling_params', 'generation_config', 'tool_resources'],
      ...['provider', 'models', 'route', 'transforms', 'plugins'],
    ],
    published: 'clients and routers of other services',
    because: 'any other field may be inside it',
  },
];

const namesOf = (refused: readonly RefusedFields[]) => refused.flatMap(({ fields }) => fields);

/** Names under which refusals are counted; clients choose names, so any other name counts as `other`. */
export const countedFields: ReadonlySet<string> = new Set(
  namesOf([...refusedPublishedFields, ...refusedParts, ...refusedEngineFields]),
);

export const refusedPartTypes: ReadonlySet<string> = new Set(namesOf(refusedParts));

const refusedPublished = new Set(namesOf(refusedPublishedFields));

/** Returns the fields of an endpoint's published description that reach a backend. */
export function publishedFields(shape: Readonly<Record<string, unknown>>): ReadonlySet<string> {
  return new Set(Object.keys(shape).filter((field) => !refusedPublished.has(field)));
}

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

const known = new Set([...defaultExtraFields, ...countedFields]);

/**
 * Returns the name under which a refused field is counted. Clients choose names, so a name that model servers do not know counts as
 * `other`.
 */
export function countedName(field: string): string {
  return known.has(field) ? field : 'other';
}

const harmless = new Set(defaultExtraFields);

/**
 * Returns whether all fields of a request mean the same in a stream: those of its endpoint's published description (`shape`), and those of
 * the default list. Any other field may not work in a stream, or may add parts to the answer that cannot be assembled
 * (contract.md#q6-whole-answers-as-streams).
 */
export function meansTheSameInStream(request: object, shape: Readonly<Record<string, unknown>>): boolean {
  return Object.entries(request).every(([field, value]) => value == null || field in shape || harmless.has(field));
}

/** Returns the fields that a model's `extra_fields` allows. The list replaces the default list; `default` in it stands for that list. */
export function allowedExtraFields(listed: readonly string[] = ['default']): ReadonlySet<string> {
  return new Set(listed.flatMap((name) => (name === 'default' ? defaultExtraFields : [name])));
}
