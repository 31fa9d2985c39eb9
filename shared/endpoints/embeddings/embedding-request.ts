import { z } from 'zod';
import { promptInput } from '../fields/prompt-input.ts';

/** All fields of OpenAI's published description of `POST /v1/embeddings` (openai/openai-openapi, `CreateEmbeddingRequest`). */
export const embeddingRequestSchema = z.looseObject({
  model: z.string().min(1).meta({ description: "A model of the caller's plan that offers `embeddings`." }),
  input: promptInput,
  dimensions: z
    .int()
    .positive()
    .nullish()
    .meta({ description: 'Length of the vectors, if the model can shorten them.' }),
  encoding_format: z.enum(['float', 'base64']).nullish().meta({ description: 'Default: `float`.' }),
  user: z.string().nullish(),
});

export type EmbeddingRequest = z.infer<typeof embeddingRequestSchema>;
