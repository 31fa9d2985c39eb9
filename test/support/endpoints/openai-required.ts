/**
 * What an object must have: `names` of properties, and the same of objects in its members, also in those that are optional. A list must
 * have it in each item. With `types`, it depends on the object's own `type`.
 */
export type RequiredMembers = {
  readonly names?: readonly string[];
  readonly members?: Readonly<Record<string, RequiredMembers>>;
  readonly types?: Readonly<Record<string, RequiredMembers>>;
};

function required(names: string, members: Readonly<Record<string, RequiredMembers>> = {}): RequiredMembers {
  return { names: names.split(' ').filter((name) => name !== ''), members };
}

/**
 * By the names of OpenAI's description (openai/openai-openapi, commit f85dbe2): the names that it requires in each answer of this service.
 */

const usage = required('prompt_tokens completion_tokens total_tokens');
const call = { types: { function: required('id type function', { function: required('name arguments') }) } };
const logprob = required('token logprob bytes top_logprobs', { top_logprobs: required('token logprob bytes') });
const logprobs = required('content refusal', { content: logprob, refusal: logprob });

export const chatCompletion = required('choices created id model object', {
  choices: required('finish_reason index message logprobs', {
    message: required('role content refusal', { tool_calls: call }),
    logprobs,
  }),
  usage,
});
export const chatChunk = required('choices created id model object', {
  choices: required('delta finish_reason index', { delta: required('', { tool_calls: required('index') }), logprobs }),
  usage,
});
export const completion = required('id object created model choices', {
  choices: required('finish_reason index logprobs text'),
  usage,
});
export const embeddingList = required('object model data usage', {
  data: required('index object embedding'),
  usage: required('prompt_tokens total_tokens'),
});

const part = {
  types: {
    output_text: required('type text annotations logprobs', { logprobs: logprob }),
    refusal: required('type refusal'),
    reasoning_text: required('type text'),
    summary_text: required('type text'),
  },
};
const outputItem = {
  types: {
    message: required('id type role content status', { content: part }),
    reasoning: required('id summary type', { summary: part, content: part }),
    function_call: required('type call_id name arguments'),
    custom_tool_call: required('type call_id name input'),
  },
};
export const response = required(
  'id object created_at error incomplete_details instructions model tools output parallel_tool_calls metadata tool_choice temperature top_p',
  {
    output: outputItem,
    error: required('code message'),
    usage: required('input_tokens input_tokens_details output_tokens output_tokens_details total_tokens', {
      input_tokens_details: required('cached_tokens cache_write_tokens'),
      output_tokens_details: required('reasoning_tokens'),
    }),
  },
);

const lifecycle = required('type response sequence_number', { response });
const ofItem = required('type output_index item sequence_number', { item: outputItem });
const inPart = 'type item_id output_index content_index sequence_number';
const inSummary = 'type item_id output_index summary_index sequence_number';
const inItem = 'type item_id output_index sequence_number';
export const responseEvent: RequiredMembers = {
  types: {
    'response.created': lifecycle,
    'response.in_progress': lifecycle,
    'response.completed': lifecycle,
    'response.incomplete': lifecycle,
    'response.output_item.added': ofItem,
    'response.output_item.done': ofItem,
    'response.content_part.added': required(`${inPart} part`, { part }),
    'response.content_part.done': required(`${inPart} part`, { part }),
    'response.output_text.delta': required(`${inPart} delta logprobs`),
    'response.output_text.done': required(`${inPart} text logprobs`),
    'response.refusal.delta': required(`${inPart} delta`),
    'response.refusal.done': required(`${inPart} refusal`),
    'response.reasoning_text.delta': required(`${inPart} delta`),
    'response.reasoning_text.done': required(`${inPart} text`),
    'response.reasoning_summary_part.added': required(`${inSummary} part`, { part }),
    'response.reasoning_summary_part.done': required(`${inSummary} part`, { part }),
    'response.reasoning_summary_text.delta': required(`${inSummary} delta`),
    'response.reasoning_summary_text.done': required(`${inSummary} text`),
    'response.function_call_arguments.delta': required(`${inItem} delta`),
    'response.function_call_arguments.done': required(`${inItem} name arguments`),
    'response.custom_tool_call_input.delta': required(`${inItem} delta`),
    'response.custom_tool_call_input.done': required(`${inItem} input`),
    error: required('type code message param sequence_number'),
  },
};

export const batch = required('id object endpoint input_file_id completion_window status created_at', {
  request_counts: required('total completed failed'),
  usage: required('input_tokens input_tokens_details output_tokens output_tokens_details total_tokens', {
    input_tokens_details: required('cached_tokens'),
    output_tokens_details: required('reasoning_tokens'),
  }),
});
export const file = required('id object bytes created_at filename purpose status');
export const deletedFile = required('id object deleted');
export const model = required('id object created owned_by');
export const batchList = required('object data has_more', { data: batch });
export const fileList = required('object data first_id last_id has_more', { data: file });
export const modelList = required('object data', { data: model });
export const errorResponse = required('error', { error: required('type message param code') });

/** The paths of required properties that are missing, and of objects whose type is not known. */
export function missingIn(value: unknown, wanted: RequiredMembers, path = ''): string[] {
  if (Array.isArray(value)) return value.flatMap((item, index) => missingIn(item, wanted, `${path}[${index}]`));
  if (typeof value !== 'object' || value === null) return [];
  const object: Readonly<Record<string, unknown>> = { ...value };
  const { names = [], members = {}, types } = wanted;
  if (types !== undefined) {
    const own = types[String(object.type)];
    return own === undefined ? [`${path}: type ${object.type}`] : missingIn(value, own, path);
  }
  const missing = names.filter((name) => object[name] === undefined).map((name) => `${path}.${name}`);
  const inside = Object.entries(members).flatMap(([name, member]) =>
    missingIn(object[name], member, `${path}.${name}`),
  );
  return [...missing, ...inside];
}
