import type { Setting } from '../endpoint.ts';
import type { CallPart, TextPart } from '../model/answer-parts.ts';
import type { ResponseAnswer } from './answer-response.ts';
import type { ResponseRequest } from './read-response.ts';

export type ItemStatus = 'in_progress' | 'completed' | 'incomplete';

/** What a response consists of, before it is known how it ends. */
export interface ResponseParts {
  readonly request: ResponseRequest;
  readonly answer: ResponseAnswer & { readonly cachedTokens: number };
  readonly setting: Setting;
}

/** The fields of a request that its response repeats, with the values for requests without them. */
const repeatedFields = {
  instructions: null,
  max_output_tokens: null,
  max_tool_calls: null,
  metadata: {},
  parallel_tool_calls: true,
  previous_response_id: null,
  reasoning: { effort: null, summary: null },
  store: true,
  temperature: 1,
  text: { format: { type: 'text' } },
  tool_choice: 'auto',
  top_logprobs: 0,
  top_p: 1,
  truncation: 'disabled',
};

/** The response as it is once the answer is complete. */
export function wholeResponse(named: ResponseParts): object {
  const { answer, setting } = named;
  return responseObject(named, {
    status: answer.incomplete ? 'incomplete' : 'completed',
    completed_at: answer.incomplete ? null : setting.created,
    incomplete_details: answer.incomplete ? { reason: 'max_output_tokens' } : null,
    output: answer.parts.map((part, index) => outputItem(part, itemId(part, setting, index), statusOf(answer, index))),
    usage: setting.withUsage ? usageOf(answer) : null,
  });
}

/** The response before its first item. */
export function startedResponse(named: ResponseParts): object {
  return responseObject(named, { status: 'in_progress' });
}

export function failedResponse(named: ResponseParts, message: string): object {
  return responseObject(named, { status: 'failed', error: { code: 'server_error', message } });
}

/** An item of the output, with its text, or empty while it is in progress. */
export function outputItem(part: TextPart | CallPart, id: string, status: ItemStatus): object {
  const isEmpty = status === 'in_progress';
  const content = isEmpty ? [] : [contentPart(part.kind, part.tokens.join(''))];
  switch (part.kind) {
    case 'reasoning':
      return { id, type: 'reasoning', summary: [], content, encrypted_content: null, status };
    case 'call': {
      const text = isEmpty ? '' : part.tokens.join('');
      const group = part.namespace === undefined ? {} : { namespace: part.namespace };
      const call = { call_id: part.id, name: part.name, ...group, status };
      return part.isCustom
        ? { id, type: 'custom_tool_call', ...call, input: text }
        : { id, type: 'function_call', ...call, arguments: text };
    }
    default:
      return { id, type: 'message', role: 'assistant', content, status };
  }
}

export function contentPart(kind: 'reasoning' | 'text' | 'refusal' | 'call', text: string): object {
  if (kind === 'reasoning') return { type: 'reasoning_text', text };
  if (kind === 'refusal') return { type: 'refusal', refusal: text };
  return { type: 'output_text', text, annotations: [], logprobs: [] };
}

const idPrefixes = { reasoning: 'rs', text: 'msg', refusal: 'msg', call: 'fc' };

export function itemId({ kind }: { kind: keyof typeof idPrefixes }, { id }: Setting, index: number): string {
  return `${idPrefixes[kind]}_${id}_${index}`;
}

export function statusOf({ parts, incomplete }: ResponseAnswer, index: number): ItemStatus {
  return incomplete && index === parts.length - 1 ? 'incomplete' : 'completed';
}

function responseObject({ request, setting }: ResponseParts, state: object): object {
  const repeated = Object.entries(repeatedFields).map(([name, value]) => [name, request[name] ?? value]);
  return {
    ...{ id: `resp_${setting.id}`, object: 'response', created_at: setting.created, completed_at: null },
    ...{ background: false, error: null, incomplete_details: null, output: [], usage: null },
    ...{ model: request.model, service_tier: 'default' },
    ...Object.fromEntries(repeated),
    tools: (request.tools ?? []).map((tool) => ({ description: null, parameters: null, strict: null, ...tool })),
    ...state,
  };
}

function usageOf({ promptTokens, cachedTokens, completionTokens, reasoningTokens }: ResponseParts['answer']) {
  return {
    input_tokens: promptTokens,
    input_tokens_details: { cached_tokens: cachedTokens, cache_write_tokens: 0 },
    output_tokens: completionTokens,
    output_tokens_details: { reasoning_tokens: reasoningTokens },
    total_tokens: promptTokens + completionTokens,
  };
}
