import { z } from 'zod';
import type { ClientForm } from './client-form.ts';

const answer = z.object({
  results: z.array(z.object({ index: z.int(), relevance_score: z.number() })).min(1),
  usage: z.object({ total_tokens: z.int() }),
});
const body = z.looseObject({ documents: z.tuple([z.string()]) });

/** The question is the only document, and the query has no tokens. */
export const rerankForm: ClientForm = {
  ...{ path: '/v1/rerank', hasStreams: false, hasText: false },
  bodyOf: ({ model, question }) => ({ model, query: '', documents: [question] }),
  questionOf: (sent) => body.safeParse(sent).data?.documents[0],
  readWhole(value) {
    const { data } = answer.safeParse(value);
    return data && { text: '', usage: { promptTokens: data.usage.total_tokens, completionTokens: 0 } };
  },
  readStream: () => undefined,
  textIn: () => '',
};
