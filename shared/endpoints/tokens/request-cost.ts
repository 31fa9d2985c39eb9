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

/** How the requests of an endpoint are measured (`RequestFormat`). */
type Measure = {
  readonly promptField: string;
  readonly limitFields: readonly string[];
  estimatePrompt(request: object, text: string): number;
  promptsIn?(request: object): number;
};

type Basis = {
  measure: Measure;
  /** The payload. */
  text: string;
  /** Without `outputTokensMax`, the model generates nothing. */
  model: { outputTokensMax?: number | undefined; clampOutputTokens?: boolean | undefined };
};

/**
 * Returns the tokens to reserve for a request (contract.md#e3-reserved-tokens). Its output limit is the client's under any of its names, or
 * else the model's own. Without names of a limit, nothing is generated. Fails with `VALIDATION_ERROR`, which names each field that is
 * invalid or exceeds what the model may generate.
 */
export function requestCost(request: object, { measure, text, model }: Basis): RequestCost {
  const { promptField, limitFields } = measure;
  const promptTokens = measure.estimatePrompt(request, text);
  const [usualLimit] = limitFields;
  if (usualLimit === undefined) {
    const nothing = { outputTokensMax: 0, choices: 1, limitField: promptField, choicesField: promptField };
    return { promptTokens, promptField, reservedTokens: promptTokens, ...nothing };
  }
  const { outputTokensMax: most = 0, clampOutputTokens = false } = model;
  const clamped = clampOutputTokens ? limitFields : [];
  const { tokens: asked, choices: each } = readOutputLimit({ ...request }, { outputTokensMax: most, clamped });
  const outputTokensMax = asked?.value ?? most;
  const prompts = measure.promptsIn?.(request) ?? 1;
  const choices = each.value * prompts;
  return {
    promptTokens,
    outputTokensMax,
    choices,
    reservedTokens: promptTokens + outputTokensMax * choices,
    promptField,
    limitField: asked?.field ?? usualLimit,
    choicesField: prompts > 1 ? promptField : each.field,
  };
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
