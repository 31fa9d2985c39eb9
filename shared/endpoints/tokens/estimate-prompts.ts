import { promptsIn } from '../fields/prompt-input.ts';
import { estimateWithMedia, type MediaSum, readOpenAiMedia, withoutMedia } from './media-tokens.ts';
import { textsIn } from './texts-in.ts';

/**
 * Estimates the tokens of a request whose prompt is in one field, in any of OpenAI's forms. Token ids count one each. All other fields
 * count as text, because any of them may get into the prompt. `text` is the request as JSON.
 */
export function estimatePrompts(request: object, field: string, text: string): number {
  const { [field]: input, ...others } = { ...request } as Readonly<Record<string, unknown>>;
  const { tokens } = promptsIn(input);
  const prompted = { fields: [field, 'messages'], readMedia: readOpenAiMedia };
  if (tokens === 0) return estimateWithMedia(request, { ...prompted, text });
  return tokens + estimateWithMedia(others, { ...prompted, text: JSON.stringify(others) });
}

/** The prompts in one field of a payload. Some model servers take messages in place of them. */
export function promptsOf(
  payload: Readonly<Record<string, unknown>>,
  field: string,
): { texts: string[]; tokens: number } {
  const { texts, tokens } = promptsIn(payload[field]);
  const media: MediaSum = { tokens, texts: [] };
  const shown = withoutMedia(payload.messages, readOpenAiMedia, media);
  return { texts: [...texts, ...textsIn(shown ?? [], textFields), ...media.texts], tokens: media.tokens };
}

const textFields = new Set(['content', 'text']);
