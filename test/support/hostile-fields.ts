/**
 * Fields of model servers with which a client could harm others or the operator, and one that no server knows. None is on the default
 * list. The names are from the documentation of vLLM, SGLang, llama.cpp, Ollama, Text Generation Inference and gateways.
 */
export const hostileFields: readonly string[] = [
  ...['priority', 'cache_salt', 'extra_key', 'request_id', 'rid', 'id_slot', 'session_id', 'session_params'],
  ...['chat_template', 'logits_processors', 'custom_logit_processor', 'custom_params', 'vllm_xargs', 'lora'],
  ...['guided_regex', 'guided_grammar', 'guided_decoding_backend', 'structural_tag', 'regex', 'ebnf', 'grammar'],
  ...['kv_transfer_params', 'ec_transfer_params', 'mm_processor_kwargs', 'media_io_kwargs', 'bootstrap_host'],
  ...['bootstrap_port', 'bootstrap_room', 'data_parallel_rank', 'input_ids', 'keep_alive', 'n_probs'],
  ...['use_beam_search', 'prompt_logprobs', 'return_token_ids', 'cache_prompt', 'num_beams', 'mcp_servers'],
  ...['extra_body', 'sampling_params', 'provider', 'models', 'route', 'transforms', 'plugins', 'x_unheard_of'],
];

/** Fields with a value in one place, and the path of that place in errors. */
type Place<Value> = { path: string; fieldsWith: (value: Value) => object };

const user = (part: object) => [{ role: 'user', content: [part] }];

/** Where the requests of each endpoint can have an address of media. */
export const mediaPlaces: Readonly<Record<string, readonly Place<string>[]>> = {
  '/v1/chat/completions': [
    {
      path: 'messages[0].content[0].image_url.url',
      fieldsWith: (url) => ({ messages: user({ type: 'image_url', image_url: { url } }) }),
    },
  ],
  '/v1/responses': [
    {
      path: 'input[0].content[0].image_url',
      fieldsWith: (url) => ({ input: user({ type: 'input_image', image_url: url }) }),
    },
    {
      path: 'input[0].content[0].file_url',
      fieldsWith: (url) => ({ input: user({ type: 'input_file', file_url: url }) }),
    },
    {
      path: 'input[1].output[0].image_url',
      fieldsWith: (url) => ({
        input: [
          { type: 'function_call', call_id: 'c', name: 'f', arguments: '{}' },
          { type: 'function_call_output', call_id: 'c', output: [{ type: 'input_image', image_url: url }] },
        ],
      }),
    },
  ],
  '/v1/messages': [
    {
      path: 'messages[0].content[0].source.url',
      fieldsWith: (url) => ({ messages: user({ type: 'image', source: { type: 'url', url } }) }),
    },
    {
      path: 'messages[0].content[0].source.url',
      fieldsWith: (url) => ({ messages: user({ type: 'document', source: { type: 'url', url } }) }),
    },
    {
      path: 'messages[0].content[0].content[0].source.url',
      fieldsWith: (url) => ({
        messages: user({
          type: 'tool_result',
          tool_use_id: 't',
          content: [{ type: 'image', source: { type: 'url', url } }],
        }),
      }),
    },
    {
      path: 'messages[0].content[0].source.content[0].source.url',
      fieldsWith: (url) => ({
        messages: user({
          type: 'document',
          source: { type: 'content', content: [{ type: 'image', source: { type: 'url', url } }] },
        }),
      }),
    },
  ],
  '/v1/rerank': [
    {
      path: 'documents[0].content[0].image_url.url',
      fieldsWith: (url) => ({
        documents: [{ text: 'a', content: [{ type: 'image_url', image_url: { url } }] }],
      }),
    },
  ],
};

/** Where the requests of each endpoint can have a list of tools. */
export const toolLists: Readonly<Record<string, readonly Place<object>[]>> = {
  '/v1/chat/completions': [{ path: 'tools[0].type', fieldsWith: (tool) => ({ tools: [tool] }) }],
  '/v1/responses': [
    { path: 'tools[0].type', fieldsWith: (tool) => ({ tools: [tool] }) },
    { path: 'input[0].tools[0].type', fieldsWith: (tool) => ({ input: [{ type: 'x', tools: [tool] }] }) },
  ],
  '/v1/messages': [{ path: 'tools[0].type', fieldsWith: (tool) => ({ tools: [tool] }) }],
};
