import { z } from 'zod';
import { listOf } from '../fields/checked-lists.ts';

/** OpenAI's kind of parts, for models that read images as well. */
const item = z.union([z.string(), z.looseObject({})], { error: 'expected a string or an object' });

/** As in Cohere's API. */
const documentsMax = 10_000;

/**
 * The fields of `POST /v1/rerank` that Cohere's, Jina's and vLLM's descriptions have in common, or that only shorten documents and answers.
 */
export const rerankRequestSchema = z.looseObject({
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

export type RerankRequest = z.infer<typeof rerankRequestSchema>;
