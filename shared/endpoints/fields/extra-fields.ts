import { countedFields } from './refused-fields.ts';

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
