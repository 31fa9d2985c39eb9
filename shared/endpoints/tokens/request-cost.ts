import { type ApiError, validationError } from '../../errors.ts';
import { readOutputLimit } from '../fields/output-limit.ts';

/**
 * The maximum cost of a request, in tokens: `reservedTokens` = `promptTokens` + `outputTokensMax` × `choices`. `promptTokens` is an
 * estimate. The fields are those that set the three, for error messages.
 */
export type RequestCost = {
  promptTokens: number;
  outputTokensMax: number;
  choices: number;
  reservedTokens: number;
  promptField: string;
  limitField: string;
  choicesField: string;
};

type PromptSize = { promptTokens: number; promptField: string };

type Generation = PromptSize & {
  /** The published names of the output limit; the first counts if the request does not set one. */
  limitFields: readonly string[];
  /** The prompts in one request: each gets its own choices. */
  prompts?: number;
  model: { outputTokensMax?: number | undefined; clampOutputTokens?: boolean | undefined };
};

/**
 * Returns the tokens to reserve for a request that generates text (contract.md#e3-reserved-tokens). Its output limit is the client's under
 * any of its names, or else the model's own. Fails with `VALIDATION_ERROR`, which names each field that is invalid or exceeds what the
 * model may generate.
 */
export function generationCost(
  request: object,
  { promptTokens, promptField, limitFields, prompts = 1, model }: Generation,
): RequestCost {
  const { outputTokensMax: most = 0, clampOutputTokens = false } = model;
  const clamped = clampOutputTokens ? limitFields : [];
  const { tokens: asked, choices: each } = readOutputLimit({ ...request }, { outputTokensMax: most, clamped });
  const outputTokensMax = asked?.value ?? most;
  const choices = each.value * prompts;
  return {
    promptTokens,
    outputTokensMax,
    choices,
    reservedTokens: promptTokens + outputTokensMax * choices,
    promptField,
    limitField: asked?.field ?? limitFields[0] ?? promptField,
    choicesField: prompts > 1 ? promptField : each.field,
  };
}

/** The tokens to reserve for a request that generates nothing. */
export function promptCost({ promptTokens, promptField }: PromptSize): RequestCost {
  const nothing = { outputTokensMax: 0, choices: 1, limitField: promptField, choicesField: promptField };
  return { promptTokens, promptField, reservedTokens: promptTokens, ...nothing };
}

/**
 * Returns an error for a request that alone exceeds the tokens per minute: it would never be admitted, no matter how long its client waits
 * (contract.md#b9-requests-that-never-pass). The `VALIDATION_ERROR` names the field to reduce, and its largest allowed value. Returns
 * undefined if there is no such limit, or if the request is within it.
 */
export function refuseLargerThanLimit(
  cost: RequestCost,
  tokensPerMinute: number | undefined,
  whose: 'the plan' | 'this API key' = 'the plan',
): ApiError | undefined {
  if (tokensPerMinute === undefined || cost.reservedTokens <= tokensPerMinute) return undefined;
  const outputTokens = tokensPerMinute - cost.promptTokens;
  const limit = `${tokensPerMinute} tokens per minute of ${whose}`;
  if (outputTokens < 1) {
    const verb = cost.promptField.endsWith('s') ? 'are' : 'is';
    const output = cost.outputTokensMax > 0 ? 'with output, ' : '';
    const message = `${verb} about ${cost.promptTokens} tokens: ${output}that exceeds the ${limit}`;
    return validationError([{ path: cost.promptField, message }]);
  }
  const most = Math.floor(outputTokens / cost.choices);
  if (most >= 1) {
    return validationError([{ path: cost.limitField, message: `expected at most ${most}, because of the ${limit}` }]);
  }
  const message = `expected at most ${outputTokens}, because of the ${limit}`;
  return validationError([{ path: cost.choicesField, message }]);
}
