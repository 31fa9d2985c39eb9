import { z } from 'zod';
import { notAnAnswer } from '../answers/backend-said.ts';
import { parseBackendJson } from '../answers/parse-backend-json.ts';
import { reportedTokens } from '../answers/reported-tokens.ts';
import { withMissing } from '../answers/with-missing.ts';
import { withModel } from '../answers/with-model.ts';
import type { AnswerFormat, WholeAnswer } from '../definition/answer-format.ts';

const answerSchema = z.looseObject({
  model: z.string().optional(),
  results: z.array(z.looseObject({})),
});

type RerankAnswer = WholeAnswer & { answer: z.infer<typeof answerSchema> };

/** Tokens as vLLM and Jina report them, or as Cohere does. */
const usageSchema = z.union([
  z
    .looseObject({ usage: z.looseObject({ total_tokens: reportedTokens }) })
    .transform(({ usage }) => usage.total_tokens),
  z
    .looseObject({ meta: z.looseObject({ tokens: z.looseObject({ input_tokens: reportedTokens }) }) })
    .transform(({ meta }) => meta.tokens.input_tokens),
]);

/** Lists of documents by their relevance (Cohere's and Jina's API references, rerank). */
export const rerankAnswers: AnswerFormat = {
  parse(text): RerankAnswer {
    const value = parseBackendJson(text, 'the answer');
    const parsed = answerSchema.safeParse(value);
    if (!parsed.success || parsed.data.error != null)
      throw notAnAnswer(value, 'the answer has no results', { cause: parsed.error });
    const tokens = usageSchema.safeParse(parsed.data).data;
    const usage = tokens === undefined ? undefined : { promptTokens: tokens, completionTokens: 0, cachedTokens: 0 };
    return { text, answer: parsed.data, usage };
  },
  writtenIn: () => '',
  cut: (answer) => answer,

  present({ text, answer }: RerankAnswer, { promptTokens }, { model, requestId }) {
    const complete = withMissing(answer, { id: `rerank-${requestId}`, model, usage: { total_tokens: promptTokens } });
    return complete === answer ? withModel({ text, answer }, model) : JSON.stringify({ ...complete, model });
  },
};
