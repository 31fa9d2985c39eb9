import { z } from 'zod';
import { isObject } from '../json/json-values.ts';
import { notAnAnswer } from './answers/backend-error.ts';
import { parseBackendJson } from './answers/parse-backend-json.ts';
import { mapped, reportedTokens, withMissing, withModel } from './answers/with-missing.ts';
import type { AnswerFormat, WholeAnswer } from './definition/answer-format.ts';
import { askWhole, type Endpoint, noHeaders, type Prompt, type RequestFormat } from './definition/endpoint.ts';
import { listOf } from './fields/common-fields.ts';
import { publishedFields } from './fields/refused-fields.ts';
import { estimateTokens } from './tokens/estimate-tokens.ts';
import { estimateWithMedia, type MediaSum, readOpenAiMedia, withoutMedia } from './tokens/media-tokens.ts';
import { textsIn } from './tokens/prompt-texts.ts';

/** OpenAI's kind of parts, for models that read images as well. */
const item = z.union([z.string(), z.looseObject({})], { error: 'expected a string or an object' });

/** As in Cohere's API. */
const documentsMax = 10_000;

/**
 * The fields of `POST /v1/rerank` that Cohere's, Jina's and vLLM's descriptions have in common, or that only shorten documents and answers.
 */
const rerankRequestSchema = z.looseObject({
  model: z.string().min(1).meta({ description: "A model of the caller's plan that offers `rerank`." }),
  query: item,
  documents: listOf(item)
    .refine((documents) => documents.length > 0, 'expected at least one document')
    .refine((documents) => documents.length <= documentsMax, `expected at most ${documentsMax} documents`)
    .meta({ documentedAs: z.array(item).min(1).max(documentsMax) }),
  max_tokens_per_doc: z.int().positive().nullish().meta({ description: 'Longer documents are cut.' }),
  return_documents: z.boolean().nullish(),
  top_n: z.int().nonnegative().nullish().meta({ description: 'How many results to return. Default: all.' }),
});

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
const rerankAnswers: AnswerFormat = {
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

const textFields = new Set(['text', 'content']);

/** Any object, also one that the schema would refuse. */
type PromptFields = { query?: unknown; documents?: unknown };

/** The model reads the query with each document: this many tokens more than the request has. */
function repeatedTokens({ query, documents }: PromptFields): number {
  const pairs = Array.isArray(documents) ? documents.length : 0;
  const media: MediaSum = { tokens: 0, texts: [] };
  const shown = withoutMedia(query, readOpenAiMedia, media);
  return Math.max(0, pairs - 1) * (estimateTokens([...textsOf(shown), ...media.texts].join('\n')) + media.tokens);
}

/** The texts of a query or a document. All of it is text if no known field has any. */
function textsOf(item: unknown): string[] {
  const isKnown = !isObject(item) || Object.keys(item).some((name) => textFields.has(name));
  return isKnown ? textsIn(item, textFields) : [JSON.stringify(item)];
}

const request: RequestFormat = {
  schema: rerankRequestSchema,
  fields: {
    published: publishedFields(rerankRequestSchema.shape),
    media: ['query', 'documents'],
    holdTools: [],
    outputFormat: ['response_format'],
  },
  promptField: 'documents',
  limitFields: [],

  ask: askWhole,
  estimatePrompt: (asked: PromptFields, text) =>
    estimateWithMedia(asked, { text, fields: ['query', 'documents'], readMedia: readOpenAiMedia }) +
    repeatedTokens(asked),

  promptOf(payload: PromptFields): Prompt {
    const media: MediaSum = { tokens: repeatedTokens(payload), texts: [] };
    const shown = [payload.query, payload.documents].flat().map((item) => withoutMedia(item, readOpenAiMedia, media));
    return { texts: [...shown.flatMap(textsOf), ...media.texts], tokens: media.tokens };
  },
};

/** `POST /v1/rerank`. Cohere's clients call `/v2/rerank`, and others `/rerank` (contract.md#d15-other-clients). */
export const rerank: Endpoint = {
  name: 'rerank',
  path: '/v1/rerank',
  otherPaths: ['/v2/rerank', '/rerank'],
  request,
  answer: rerankAnswers,
  headers: noHeaders,
  inBatches: false,
};
