import { type ApiError, validationError } from '../errors.ts';
import type { Model } from '../process/plan-file.ts';
import type { ChatRequest } from './chat-completion.ts';
import { readOutputLimit } from './output-limit.ts';
import { estimatePrompt } from './prompt-size.ts';

/**
 * The most that a request may cost, in tokens: `tokens` = `promptTokens` + `outputTokensMax` × `choices`. `promptTokens` is
 * an estimate. `limitField` and `choicesField` are the fields that asked for the other two, as a client is to be told.
 */
export type RequestCost = {
  promptTokens: number;
  outputTokensMax: number;
  choices: number;
  tokens: number;
  limitField: string;
  choicesField: string;
};

/**
 * What is reserved for a request. `text` is what goes to the backend, which is sent `outputTokensMax` as well: what
 * the client asked for by whichever name, else the model's own. `VALIDATION_ERROR` naming each field that is wrong or
 * asks for more than the model may produce.
 */
export function requestCost({
  request,
  text,
  model,
}: {
  request: ChatRequest;
  text: string;
  model: Model;
}): RequestCost {
  const { tokens: asked, choices } = readOutputLimit(request, model.outputTokensMax);
  const promptTokens = estimatePrompt(request, text);
  const outputTokensMax = asked?.value ?? model.outputTokensMax;
  return {
    promptTokens,
    outputTokensMax,
    choices: choices.value,
    tokens: promptTokens + outputTokensMax * choices.value,
    limitField: asked?.field ?? 'max_tokens',
    choicesField: choices.field,
  };
}

/**
 * A request that alone is more than a minute's tokens would never pass, however long its client waits:
 * `VALIDATION_ERROR` naming what has to be less, and the most of it that would pass. Undefined where there is no such limit,
 * or it is kept.
 */
export function refuseLargerThanLimit(cost: RequestCost, tokensPerMinute: number | undefined): ApiError | undefined {
  if (tokensPerMinute === undefined || cost.tokens <= tokensPerMinute) return undefined;
  const outputTokens = tokensPerMinute - cost.promptTokens;
  const limit = `${tokensPerMinute} tokens per minute of the plan`;
  if (outputTokens < 1) {
    const message = `are about ${cost.promptTokens} tokens, and with an answer more than the ${limit}`;
    return validationError([{ path: 'messages', message }]);
  }
  const most = Math.floor(outputTokens / cost.choices);
  if (most >= 1) {
    return validationError([{ path: cost.limitField, message: `expected at most ${most}, for the ${limit}` }]);
  }
  const message = `expected at most ${outputTokens}, for the ${limit}`;
  return validationError([{ path: cost.choicesField, message }]);
}
