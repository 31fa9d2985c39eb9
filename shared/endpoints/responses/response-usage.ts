import { z } from 'zod';
import { isObject } from '../../is-object.ts';
import { reportedTokens } from '../answers/reported-tokens.ts';
import { withMissing } from '../answers/with-missing.ts';
import type { AnswerTokens, ReportedUsage } from '../definition/answer-format.ts';

const usageSchema = z.looseObject({
  input_tokens: reportedTokens,
  output_tokens: reportedTokens,
  input_tokens_details: z.looseObject({ cached_tokens: reportedTokens.nullish() }).nullish().catch(undefined),
  output_tokens_details: z.looseObject({ reasoning_tokens: reportedTokens.nullish() }).nullish().catch(undefined),
  total_tokens: reportedTokens.nullish().catch(undefined),
});

/** Returns the tokens in a backend's `usage`, or undefined if there is none. */
export function readUsage(usage: unknown): ReportedUsage | undefined {
  const { data } = usageSchema.safeParse(usage);
  if (data === undefined) return undefined;
  const { input_tokens: promptTokens, output_tokens: counted, input_tokens_details: details } = data;
  // As in a chat completion, some count reasoning in the total only.
  const uncounted = Math.max(0, (data.total_tokens ?? 0) - promptTokens - counted);
  const completionTokens = counted + Math.min(uncounted, data.output_tokens_details?.reasoning_tokens ?? 0);
  return { promptTokens, completionTokens, cachedTokens: Math.min(details?.cached_tokens ?? 0, promptTokens) };
}

const noReasoning = { reasoning_tokens: 0 };

/**
 * Usage in OpenAI's shape: as the backend reported it if the tokens are the same, with the properties that OpenAI's description requires.
 * Details of other tokens could be more than those that they are a part of.
 */
export function presentUsage({ promptTokens, completionTokens }: AnswerTokens, reported: unknown): object {
  const own = readUsage(reported);
  const isSame = own?.completionTokens === completionTokens;
  const kept = isObject(reported) && own !== undefined ? reported : {};
  const input = isObject(kept.input_tokens_details) ? kept.input_tokens_details : {};
  const output = isSame && isObject(kept.output_tokens_details) ? kept.output_tokens_details : {};
  const shown = own?.promptTokens || promptTokens;
  return {
    ...kept,
    input_tokens: shown,
    input_tokens_details: withMissing(input, { cached_tokens: 0, cache_write_tokens: 0 }),
    output_tokens: completionTokens,
    output_tokens_details: withMissing(output, noReasoning),
    total_tokens: shown + completionTokens,
  };
}
