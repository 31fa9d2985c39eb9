import { promptsIn } from '../fields/prompt-input.ts';
import { estimateJson } from './media-tokens.ts';

/**
 * Estimates the tokens of a request whose prompt is in one field, in any of OpenAI's forms. Token ids count one each. All other fields
 * count as text, because any of them may get into the prompt. `text` is the request as JSON.
 */
export function estimatePrompts(request: object, field: string, text: string): number {
  const { [field]: input, ...others } = { ...request } as Readonly<Record<string, unknown>>;
  const { tokens } = promptsIn(input);
  return tokens === 0 ? estimateJson(text) : tokens + estimateJson(JSON.stringify(others));
}
