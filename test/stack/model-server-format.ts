import type { Answer, Choice } from './model-server-answer.ts';

/** What names a reply: its id, who made it (shown as `system_fingerprint`), the model asked for, Unix seconds. */
export interface ReplyName {
  readonly id: string;
  readonly server: string;
  readonly model: string;
  readonly created: number;
}

/** One server-sent event. Only a `chunk` carries a token; the `role` events come before the first. */
export interface StreamEvent {
  readonly kind: 'role' | 'chunk' | 'finish' | 'usage' | 'done';
  readonly text: string;
}

/** The whole reply as JSON. */
export function formatReply(answer: Answer, name: ReplyName, withUsage: boolean): string {
  return JSON.stringify({
    ...heading(name, 'chat.completion'),
    choices: answer.choices.map((choice, index) => ({
      index,
      message: messageOf(choice),
      logprobs: null,
      finish_reason: choice.finishReason,
    })),
    ...(withUsage && { usage: usageOf(answer) }),
  });
}

/** The reply as server-sent events: several choices take turns, token by token, and all of them finish at the end. */
export function* formatEvents(answer: Answer, name: ReplyName, withUsage: boolean): Generator<StreamEvent> {
  const head = heading(name, 'chat.completion.chunk');
  const event = (kind: StreamEvent['kind'], index: number, delta: object, finishReason: string | null = null) => ({
    kind,
    text: data({ ...head, choices: [{ index, delta, logprobs: null, finish_reason: finishReason }] }),
  });
  const { choices } = answer;
  for (const [index, { content }] of choices.entries()) {
    yield event('role', index, { role: 'assistant', content: content === null ? null : '' });
  }
  const deltas = choices.map((choice) => [...deltasOf(choice)]);
  const longest = deltas.reduce((most, { length }) => Math.max(most, length), 0);
  for (let turn = 0; turn < longest; turn += 1) {
    for (const [index, ofChoice] of deltas.entries()) {
      const delta = ofChoice[turn];
      if (delta !== undefined) yield event(delta.token ? 'chunk' : 'role', index, delta.value);
    }
  }
  for (const [index, { finishReason }] of choices.entries()) yield event('finish', index, {}, finishReason);
  if (withUsage) yield { kind: 'usage', text: data({ ...head, choices: [], usage: usageOf(answer) }) };
  yield { kind: 'done', text: 'data: [DONE]\n\n' };
}

function heading({ id, server, model, created }: ReplyName, object: string) {
  return { id, object, created, model, system_fingerprint: server };
}

function messageOf({ content, toolCalls }: Choice) {
  return {
    role: 'assistant',
    content: content?.join('') ?? null,
    ...(toolCalls.length > 0 && {
      tool_calls: toolCalls.map(({ id, name, arguments: tokens }) => ({
        id,
        type: 'function',
        function: { name, arguments: tokens.join('') },
      })),
    }),
  };
}

function* deltasOf({ content, toolCalls }: Choice): Generator<{ token: boolean; value: object }> {
  for (const piece of content ?? []) yield { token: true, value: { content: piece } };
  for (const [index, { id, name, arguments: tokens }] of toolCalls.entries()) {
    const opening = { index, id, type: 'function', function: { name, arguments: '' } };
    yield { token: false, value: { tool_calls: [opening] } };
    for (const token of tokens) {
      yield { token: true, value: { tool_calls: [{ index, function: { arguments: token } }] } };
    }
  }
}

function usageOf({ promptTokens, completionTokens }: Answer) {
  return {
    prompt_tokens: promptTokens,
    completion_tokens: completionTokens,
    total_tokens: promptTokens + completionTokens,
    prompt_tokens_details: { cached_tokens: 0 },
  };
}

function data(value: object): string {
  return `data: ${JSON.stringify(value)}\n\n`;
}
