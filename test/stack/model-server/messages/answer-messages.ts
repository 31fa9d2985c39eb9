import { type Part, partsOf } from '../model/answer-parts.ts';
import { chooseAnswer, tokensOf } from '../model/choose-answer.ts';
import { type Demo, demoTokens } from '../model/demo-answers.ts';
import { promptTokensOf } from '../model/text.ts';
import { type CountedRequest, type MessagesRequest, messagesOfAnthropic } from './read-messages.ts';

export interface MessagesAnswer {
  /** A refusal is text, because the format has no block for it. */
  readonly parts: readonly Part[];
  readonly stopReason: 'end_turn' | 'max_tokens' | 'tool_use';
  readonly promptTokens: number;
  readonly completionTokens: number;
}

const stopReasons = { stop: 'end_turn', length: 'max_tokens', tool_calls: 'tool_use' } as const;

/** What the model answers to a messages request. Tests use it to predict a reply and its token counts. */
export function answerMessages(request: MessagesRequest, demo?: Demo): MessagesAnswer {
  const messages = messagesOfAnthropic(request);
  const offered = (request.tools ?? []).map(({ name, input_schema: schema }) => ({ name, schema }));
  const tools = request.tool_choice?.type === 'none' ? [] : offered;
  const { model, max_tokens: tokensMax } = request;
  const speak = demo && (() => demoTokens({ model, messages }, demo));
  const choice = chooseAnswer({ messages, tools, tokensMax, quotesResults: true, speak }, 0);
  return {
    parts: partsOf(choice).map((part) => (part.kind === 'refusal' ? { ...part, kind: 'text' } : part)),
    stopReason: stopReasons[choice.finishReason],
    promptTokens: promptTokensOf(messages),
    completionTokens: tokensOf(choice),
  };
}

/** The tokens that `count_tokens` reports, which are those of the prompt. */
export function countedTokensOf(request: Pick<CountedRequest, 'system' | 'messages'>): number {
  return promptTokensOf(messagesOfAnthropic(request));
}
