import { z } from 'zod';
import { isObject } from '../../is-object.ts';
import { notAnAnswer } from '../answers/backend-said.ts';
import { parseBackendJson } from '../answers/parse-backend-json.ts';
import { reportedTokens } from '../answers/reported-tokens.ts';
import { answerBytesMax } from '../answers/size-budget.ts';
import { mapped, withMissing } from '../answers/with-missing.ts';
import { withModel } from '../answers/with-model.ts';
import type { AnswerFormat, ReportedUsage, WholeAnswer } from '../definition/answer-format.ts';
import { createVectorCutter } from './cut-vectors.ts';
import { vectorsAsBase64 } from './vectors-as-base64.ts';
import { vectorsAsNumbers } from './vectors-as-numbers.ts';

const answerSchema = z.looseObject({
  model: z.string().nullish(),
  data: z.array(z.looseObject({})),
});

type EmbeddingAnswer = WholeAnswer & { answer: z.infer<typeof answerSchema> };

/** Zero for a prompt is no report. */
const usageSchema = z.looseObject({ prompt_tokens: reportedTokens.positive() });

function readUsage(usage: unknown): ReportedUsage | undefined {
  const tokens = usageSchema.safeParse(usage).data?.prompt_tokens;
  return tokens === undefined ? undefined : { promptTokens: tokens, completionTokens: 0, cachedTokens: 0 };
}

/** Lists of embeddings (OpenAI API reference, embeddings). The vectors pass as the backend wrote them. */
export const embeddingAnswers: AnswerFormat = {
  bytesMax: answerBytesMax.vectors,
  vectors: {
    createCutter: createVectorCutter,
    encode: (vectors, { payload, budget }) =>
      asksForBase64(payload) ? vectorsAsBase64(vectors) : vectorsAsNumbers(vectors, budget),
  },

  parse(text): EmbeddingAnswer {
    const value = parseBackendJson(text, 'the answer');
    const parsed = answerSchema.safeParse(value);
    if (!parsed.success || parsed.data.error != null)
      throw notAnAnswer(value, 'the answer has no data', { cause: parsed.error });
    return { text, answer: parsed.data, usage: readUsage(parsed.data.usage) };
  },
  writtenIn: () => '',
  cut: (answer) => answer,

  present({ text, answer, usage }: EmbeddingAnswer, { promptTokens }, { model }) {
    const data = mapped(answer.data, (item, index) => withMissing(item, { object: 'embedding', index }));
    const isWhole = data === answer.data && answer.object != null && usage !== undefined && hasTotal(answer.usage);
    if (isWhole) return withModel({ text, answer }, model);
    const tokens = { prompt_tokens: promptTokens, total_tokens: promptTokens };
    return JSON.stringify({
      ...withMissing(answer, { object: 'list' }),
      data,
      model,
      usage: { ...(isObject(answer.usage) && answer.usage), ...tokens },
    });
  },
};

/** Many servers ignore the field. The payload is a JSON object that was accepted, and is parsed only if it may have the field. */
function asksForBase64(payload: string): boolean {
  if (!payload.includes('"encoding_format":"base64"')) return false;
  const asked: unknown = JSON.parse(payload);
  return isObject(asked) && asked.encoding_format === 'base64';
}

function hasTotal(usage: unknown): boolean {
  return isObject(usage) && usage.total_tokens != null;
}
