import { z } from 'zod';
import type { ClientForm } from './client-form.ts';

const answer = z.object({
  data: z.array(z.object({ embedding: z.array(z.number()) })).min(1),
  usage: z.object({ prompt_tokens: z.int() }),
});
const body = z.looseObject({ input: z.string() });

export const embeddingForm: ClientForm = {
  ...{ path: '/v1/embeddings', hasStreams: false, hasText: false },
  bodyOf: ({ model, question }) => ({ model, input: question }),
  questionOf: (sent) => body.safeParse(sent).data?.input,
  readWhole(value) {
    const { data } = answer.safeParse(value);
    return data && { text: '', usage: { promptTokens: data.usage.prompt_tokens, completionTokens: 0 } };
  },
  readStream: () => undefined,
  textIn: () => '',
};
