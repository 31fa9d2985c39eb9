import { z } from 'zod';
import { rerank } from '../../../shared/endpoints/rerank.ts';
import { count, countedBy, modelName } from './choices-schemas.ts';
import type { EndpointDescription } from './endpoint-description.ts';

const result = z.looseObject({
  index: count.meta({ description: 'Position of the document in the request, from 0.' }),
  relevance_score: z.number(),
  document: z.looseObject({ text: z.string().nullish() }).nullish(),
});

const ranking = z.looseObject({
  id: z.string(),
  model: modelName,
  results: z.array(result).meta({ description: 'The most relevant first, as the model server wrote them.' }),
  usage: z.looseObject({ total_tokens: count }).meta(countedBy),
});

export const rerankDescription: EndpointDescription = {
  endpoint: rerank,
  id: 'createRerank',
  summary: 'Sort documents by relevance',
  description: `In the format of Cohere's and Jina's APIs, for models that offer \`rerank\`. The model reads the query with each document, so the tokens
of the query are charged once for each. It has no stream.`,
  request: {
    schema: 'RerankRequest',
    example: { model: 'small-embed', query: 'Where is Bonn?', documents: ['Bonn is on the Rhine.', 'Cats sleep.'] },
  },
  answer: {
    description: 'The documents by their relevance to the query.',
    schema: 'Ranking',
    example: {
      id: 'rerank-7f3a',
      model: 'small-embed',
      results: [
        { index: 0, relevance_score: 0.98, document: { text: 'Bonn is on the Rhine.' } },
        { index: 1, relevance_score: 0.01, document: { text: 'Cats sleep.' } },
      ],
      usage: { total_tokens: 16 },
    },
  },
  schemas: { Ranking: ranking },
};
