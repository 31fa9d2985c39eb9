import { z } from 'zod';
import { embeddings } from '../../../shared/endpoints/embeddings.ts';
import { count, countedBy, modelName } from './choices-schemas.ts';
import type { EndpointDescription } from './endpoint-description.ts';

const embedding = z.looseObject({
  object: z.string().optional(),
  index: count.optional(),
  embedding: z
    .union([z.array(z.number()), z.string()])
    .meta({ description: 'The vector: numbers, or for `base64` its 32-bit floats (little-endian) in Base64.' }),
});

const embeddingList = z.looseObject({
  object: z.literal('list'),
  model: modelName,
  data: z.array(embedding).meta({ description: 'One vector for each input, as the model server wrote it.' }),
  usage: z.looseObject({ prompt_tokens: count, total_tokens: count }).meta(countedBy),
});

export const embeddingsDescription: EndpointDescription = {
  endpoint: embeddings,
  id: 'createEmbedding',
  summary: 'Create embeddings',
  description: `Compatible with OpenAI's API, for models that offer \`embeddings\`. \`input\` is a string, an array of strings, an array of token ids,
or an array of such arrays, at most 2,048 of them. The tokens of the input are charged. It has no stream.`,
  request: { schema: 'EmbeddingRequest', example: { model: 'small-embed', input: ['First text', 'Second text'] } },
  answer: {
    description: 'A vector for each input.',
    schema: 'EmbeddingList',
    example: {
      object: 'list',
      model: 'small-embed',
      data: [
        { object: 'embedding', index: 0, embedding: [0.12, -0.5, 0.86] },
        { object: 'embedding', index: 1, embedding: [0.31, 0.4, -0.86] },
      ],
      usage: { prompt_tokens: 4, total_tokens: 4 },
    },
  },
  schemas: { EmbeddingList: embeddingList },
};
