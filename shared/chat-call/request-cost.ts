import { type ApiError, validationError } from '../errors.ts';
import type { Model } from '../process/plan-file.ts';
import type { ChatRequest } from './chat-completion.ts';
import { readOutputLimit } from './output-limit.ts';
import { estimatePrompt } from './prompt-size.ts';

/**
 * The maximum cost of a request, in tokens: `tokens` = `promptTokens` + `outputTokensMax` × `choices`. `promptTokens` is an estimate.
 * `limitField` and `choicesField` are the fields that set the other two, for error messages.
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
 * Returns the tokens to reserve for a request (contract.md#e3-reserved-tokens). `text` is the body for the backend, which also gets
 * `outputTokensMax`: the client's limit under any of its names, or else the model's own. Fails with `VALIDATION_ERROR`, which names each
 * field that is invalid or exceeds what the model may generate.
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
 * Returns an error for a request that alone exceeds the tokens per minute: it would never be admitted, no matter how long its client waits
 * (contract.md#b9-requests-that-never-pass). The `VALIDATION_ERROR` names the field to reduce, and its largest allowed value. Returns
 * undefined if there is no such limit, or if the request is within it.
 */
export function refuseLargerThanLimit(cost: RequestCost, tokensPerMinute: number | undefined): ApiError | undefined {
  if (tokensPerMinute === undefined || cost.tokens <= tokensPerMinute) return undefined;
  const outputTokens = tokensPerMinute - cost.promptTokens;
  const limit = `${tokensPerMinute} tokens per minute of the plan`;
  if (outputTokens < 1) {
    const message = `are about ${cost.promptTokens} tokens: with output, that exceeds the ${limit}`;
    return validationError([{ path: 'messages', message }]);
  }
  const most = Math.floor(outputTokens / cost.choices);
  if (most >= 1) {
    return validationError([{ path: cost.limitField, message: `expected at most ${most}, because of the ${limit}` }]);
  }
  const message = `expected at most ${outputTokens}, because of the ${limit}`;
  return validationError([{ path: cost.choicesField, message }]);
}
