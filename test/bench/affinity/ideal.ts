import { asMessage, promptOf } from '../../stack/model-server/model/text.ts';
import { createPrefixCache } from '../../stack/model-server/prefix-cache.ts';
import { pieces } from '../../stack/model-server.ts';
import type { SentRequest } from './run-traffic.ts';

/** The tokens of a prompt and those that were cached. */
export interface PromptCount {
  readonly promptTokens: number;
  readonly cachedTokens: number;
}

/** What one server with an unlimited cache would have cached of each request, by its number, in the order in which they were sent. */
export function idealOf(sent: readonly Pick<SentRequest, 'index' | 'messages' | 'answer'>[]): Map<number, PromptCount> {
  const cache = createPrefixCache({ tokensMax: Number.POSITIVE_INFINITY });
  return new Map(
    sent.map(({ index, messages, answer }) => {
      const prompt = promptOf(messages);
      const cachedTokens = cache.read(prompt);
      cache.keep({ prompt, answers: [asMessage('assistant', pieces(answer))] });
      return [index, { promptTokens: prompt.length, cachedTokens }];
    }),
  );
}

/** The cached tokens as a share of all prompt tokens. */
export function cachedShare(counts: readonly PromptCount[]): number {
  const sum = (name: keyof PromptCount) => counts.reduce((total, each) => total + each[name], 0);
  return sum('cachedTokens') / sum('promptTokens');
}
