import { z } from 'zod';
import { isObject } from '../../is-object.ts';
import { reportedTokens } from '../answers/reported-tokens.ts';
import type { AnswerTokens, ReportedUsage } from '../definition/answer-format.ts';

const usageSchema = z.looseObject({
  input_tokens: reportedTokens,
  output_tokens: reportedTokens,
  cache_creation_input_tokens: reportedTokens.nullish(),
  cache_read_input_tokens: reportedTokens.nullish(),
  iterations: z.array(z.unknown()).nullish().catch(undefined),
});

/**
 * Returns the tokens in a backend's `usage`, or undefined if there is none. `input_tokens` are only those that no cache has. What the
 * provider has read and written to shorten the conversation is not among them, and counts as prompt: no output limit bounds it
 * (contract.md#ho5-proof-of-usage).
 */
export function readUsage(usage: unknown): ReportedUsage | undefined {
  const { data } = usageSchema.safeParse(usage);
  if (data === undefined) return undefined;
  let cachedTokens = data.cache_read_input_tokens ?? 0;
  let promptTokens = data.input_tokens + (data.cache_creation_input_tokens ?? 0) + cachedTokens;
  for (const iteration of data.iterations ?? []) {
    if (!isObject(iteration) || iteration.type !== 'compaction') continue;
    const compaction = readUsage({ ...iteration, iterations: undefined });
    cachedTokens += compaction?.cachedTokens ?? 0;
    promptTokens += (compaction?.promptTokens ?? 0) + (compaction?.completionTokens ?? 0);
  }
  return { promptTokens, completionTokens: data.output_tokens, cachedTokens };
}

/**
 * Usage in Anthropic's shape: as the backend reported it, except for the tokens that are charged; or all of it, if it reported none.
 * Details of other tokens could be more than those that they are a part of.
 */
export function presentUsage({ promptTokens, completionTokens }: AnswerTokens, reported?: unknown): object {
  const counts = { cache_creation_input_tokens: 0, cache_read_input_tokens: 0 };
  if (!isObject(reported)) return { input_tokens: promptTokens, ...counts, output_tokens: completionTokens };
  const input = readUsage(reported)?.promptTokens === 0 ? { input_tokens: promptTokens } : {};
  if (reported.output_tokens === completionTokens) return { ...reported, ...input };
  const { output_tokens_details: _, ...rest } = reported;
  return { ...rest, ...input, output_tokens: completionTokens };
}

/** The usage with the counts of a later event. Null and zero do not replace a count. */
export function withCounts(
  usage: Readonly<Record<string, unknown>>,
  counts: unknown,
): Readonly<Record<string, unknown>> {
  if (!isObject(counts)) return usage;
  const counted = Object.entries(counts).filter(
    ([name, count]) => count !== null && (count !== 0 || usage[name] == null),
  );
  return { ...usage, ...Object.fromEntries(counted) };
}
