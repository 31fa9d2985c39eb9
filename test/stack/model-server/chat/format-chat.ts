import type { StreamEvent } from '../endpoint.ts';
import type { Choice } from '../model/choose-answer.ts';
import { dataEvent, doneEvent, openAiForm } from '../openai-form.ts';
import type { ChatAnswer } from './answer-chat.ts';

/** An answer, and how many tokens of its prompt were cached. */
export type ReadChat = ChatAnswer & { readonly cachedTokens: number };

/** The identity of a reply: its id, its server (shown as `system_fingerprint`), the requested model, Unix seconds. */
export interface ReplyName {
  readonly id: string;
  readonly server: string;
  readonly model: string;
  readonly created: number;
}

export const chatForm = openAiForm({
  textOpenings: ['"content":"'],
  wholeUpToText: '{"choices":[{"index":0,"message":{"role":"assistant","content":"',
  eventUpToText: 'data: {"choices":[{"index":0,"delta":{"content":"',
  eventAfterText: '"},"finish_reason":null}]}\n\n',
  emptyEvent: 'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}\n\n',
});

/** The complete reply as JSON. */
export function formatReply(answer: ReadChat, name: ReplyName, withUsage: boolean): string {
  return JSON.stringify({
    ...heading(name, 'chat.completion'),
    choices: answer.choices.map((choice, index) => ({
      index,
      message: messageOf(choice),
      logprobs: answer.logprobs && choice.toolCalls.length === 0 ? logprobsOf(choice) : null,
      finish_reason: choice.finishReason,
    })),
    ...(withUsage && { usage: usageOf(answer) }),
  });
}

/** The reply as server-sent events: several choices take turns, token by token, and all of them finish at the end. */
export function* formatEvents(answer: ReadChat, name: ReplyName, withUsage: boolean): Generator<StreamEvent> {
  const head = heading(name, 'chat.completion.chunk');
  const event = (kind: StreamEvent['kind'], index: number, { value, logprobs = null, finishReason = null }: Delta) => ({
    kind,
    text: dataEvent({ ...head, choices: [{ index, delta: value, logprobs, finish_reason: finishReason }] }),
  });
  const { choices } = answer;
  for (const [index, { content }] of choices.entries()) {
    yield event('open', index, { value: { role: 'assistant', content: content === null ? null : '' } });
  }
  const deltas = choices.map((choice) => [...deltasOf(choice, answer.logprobs)]);
  const longest = deltas.reduce((most, { length }) => Math.max(most, length), 0);
  for (let turn = 0; turn < longest; turn += 1) {
    for (const [index, ofChoice] of deltas.entries()) {
      const delta = ofChoice[turn];
      if (delta !== undefined) yield event(delta.token ? 'chunk' : 'open', index, delta);
    }
  }
  for (const [index, { finishReason }] of choices.entries()) yield event('finish', index, { value: {}, finishReason });
  if (withUsage) yield { kind: 'usage', text: dataEvent({ ...head, choices: [], usage: usageOf(answer) }) };
  yield { kind: 'done', text: doneEvent };
}

function heading({ id, server, model, created }: ReplyName, object: string) {
  return { id, object, created, model, system_fingerprint: server };
}

type Delta = { value: object; logprobs?: object | null; finishReason?: string | null };

function messageOf({ reasoning, content, refusal, toolCalls }: Choice) {
  return {
    role: 'assistant',
    content: content?.join('') ?? null,
    ...(refusal !== null && { refusal: refusal.join('') }),
    ...(reasoning.length > 0 && { reasoning_content: reasoning.join('') }),
    ...(toolCalls.length > 0 && {
      tool_calls: toolCalls.map(({ id, name, arguments: tokens }) => ({
        id,
        type: 'function',
        function: { name, arguments: tokens.join('') },
      })),
    }),
  };
}

function* deltasOf(choice: Choice, withLogprobs: boolean): Generator<Delta & { token: boolean }> {
  const { reasoning, content, refusal, toolCalls } = choice;
  for (const piece of reasoning) yield { token: true, value: { reasoning_content: piece } };
  for (const piece of content ?? []) {
    const logprobs = withLogprobs ? logprobsOf({ content: [piece], refusal: null }) : null;
    yield { token: true, value: { content: piece }, logprobs };
  }
  for (const piece of refusal ?? []) {
    const logprobs = withLogprobs ? logprobsOf({ content: null, refusal: [piece] }) : null;
    yield { token: true, value: { refusal: piece }, logprobs };
  }
  for (const [index, { id, name, arguments: tokens }] of toolCalls.entries()) {
    const opening = { index, id, type: 'function', function: { name, arguments: '' } };
    yield { token: false, value: { tool_calls: [opening] } };
    for (const token of tokens) {
      yield { token: true, value: { tool_calls: [{ index, function: { arguments: token } }] } };
    }
  }
}

function logprobsOf({ content, refusal }: Pick<Choice, 'content' | 'refusal'>) {
  const ofToken = (token: string) => ({
    token,
    logprob: -token.length,
    bytes: [...Buffer.from(token)],
    top_logprobs: [],
  });
  return { content: content?.map(ofToken) ?? null, refusal: refusal?.map(ofToken) ?? null };
}

function usageOf({ promptTokens, completionTokens, cachedTokens }: ReadChat) {
  return {
    prompt_tokens: promptTokens,
    completion_tokens: completionTokens,
    total_tokens: promptTokens + completionTokens,
    prompt_tokens_details: { cached_tokens: cachedTokens },
  };
}
