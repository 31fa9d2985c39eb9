import { z } from 'zod';
import { isObject } from '../../is-object.ts';
import { notAnAnswer } from '../answers/backend-said.ts';
import { parseBackendJson } from '../answers/parse-backend-json.ts';
import { reportedTokens } from '../answers/reported-tokens.ts';
import { mapped, withMissing } from '../answers/with-missing.ts';
import { withModel } from '../answers/with-model.ts';
import type { AnswerFormat, WholeAnswer } from '../definition/answer-format.ts';

const answerSchema = z.looseObject({
  model: z.string().nullish(),
  results: z.array(z.looseObject({})),
});

type RerankAnswer = WholeAnswer & { answer: z.infer<typeof answerSchema> };

/** Tokens as vLLM and Jina report them, or as Cohere does. */
const usageSchema = z.union([
  z
    .looseObject({ usage: z.looseObject({ total_tokens: reportedTokens.positive() }) })
    .transform(({ usage }) => usage.total_tokens),
  z
    .looseObject({ meta: z.looseObject({ tokens: z.looseObject({ input_tokens: reportedTokens.positive() }) }) })
    .transform(({ meta }) => meta.tokens.input_tokens),
]);

/** Lists of documents by their relevance (Cohere's and Jina's API references, rerank). */
export const rerankAnswers: AnswerFormat = {
  parse(given): RerankAnswer {
    const value = parseBackendJson(given, 'the answer');
    const published = publishedAnswer(value);
    const parsed = answerSchema.safeParse(published);
    if (!parsed.success || parsed.data.error != null)
      throw notAnAnswer(value, 'the answer has no results', { cause: parsed.error });
    const tokens = usageSchema.safeParse(parsed.data).data;
    const usage = tokens === undefined ? undefined : { promptTokens: tokens, completionTokens: 0, cachedTokens: 0 };
    return { text: published === value ? given : JSON.stringify(parsed.data), answer: parsed.data, usage };
  },
  writtenIn: () => '',
  cut: (answer) => answer,

  present({ text, answer, usage: reported }: RerankAnswer, { promptTokens }, { model, requestId }) {
    const usage = { ...(isObject(answer.usage) && answer.usage), total_tokens: promptTokens };
    const complete = withMissing(reported === undefined ? { ...answer, usage } : answer, {
      id: `rerank-${requestId}`,
      model,
      usage,
    });
    return complete === answer ? withModel({ text, answer }, model) : JSON.stringify({ ...complete, model });
  },
};

/** Returns an answer that is a list, or has one as `data`, with its results by their names: any other as it is. */
function publishedAnswer(value: unknown): unknown {
  if (Array.isArray(value))
    return value.length > 0 && value.every(isRanked) ? { results: value.map(publishedResult) } : value;
  if (!isObject(value)) return value;
  const { data, ...rest } = value;
  const list = value.results ?? data;
  if (!Array.isArray(list)) return value;
  const results = mapped(list, publishedResult);
  return results === value.results ? value : { ...(value.results == null ? rest : value), results };
}

/** A list can also have errors. */
function isRanked(item: unknown): boolean {
  return isObject(item) && typeof (item.relevance_score ?? item.score) === 'number';
}

/** TEI names the score and the text in another way. */
function publishedResult(item: unknown): unknown {
  if (!isObject(item) || item.relevance_score != null || typeof item.score !== 'number') return item;
  const { score, text, ...rest } = item;
  return { ...rest, relevance_score: score, ...(typeof text === 'string' && { document: { text } }) };
}
