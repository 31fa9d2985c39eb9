import { z } from 'zod';
import { errorParts } from '../../api/refusals.ts';
import type { EndpointDescription } from './endpoint-description.ts';

/** What the answers of several endpoints have in OpenAI's format. Other fields from a model server reach the client unchanged. */

export const count = z.int().nonnegative();

/** About the usage in an answer of any endpoint. */
export const countedBy = {
  description: 'As counted by the model server, or by a tokenizer if the model server reports no counts.',
};

export const tokens = z
  .looseObject({ prompt_tokens: count, completion_tokens: count, total_tokens: count.optional() })
  .meta(countedBy);

export const modelName = z.string().meta({ description: 'The requested model name.' });

export const head = {
  id: z.string().optional(),
  object: z.string().optional(),
  created: z.int().optional().meta({ description: 'Seconds since 1970, UTC.' }),
  model: modelName,
};

export const finishReason = z
  .string()
  .nullish()
  .meta({ description: '`stop`, `length`, `tool_calls`, `content_filter`; null before the answer is complete.' });

export const streamError = z
  .strictObject({
    error: z.strictObject({
      code: errorParts.code,
      type: z.string(),
      message: errorParts.message,
      param: z.null(),
    }),
  })
  .meta({ description: 'The last event of an interrupted stream, for every code; no `[DONE]` follows.' });

/** A stream of chunks of this schema, up to `[DONE]`. */
export function chunkStream(chunk: string, example: object): NonNullable<EndpointDescription['stream']> {
  return {
    events: [chunk, 'StreamError'],
    description: `Events, each a \`${chunk}\`, at last \`[DONE]\` or a \`StreamError\`.`,
    example: `data: ${JSON.stringify(example)}\n\ndata: [DONE]\n\n`,
  };
}

/** How such a stream ends, and what is in it beside events. */
export function streamText(chunk: string): string {
  return `With \`stream\` the response is server-sent events: \`data: <${chunk}>\` each, then \`data: [DONE]\`. An interrupted stream ends with
\`data: <StreamError>\` and no \`[DONE]\`. Lines that start with a colon are comments, sent while there is no data.`;
}
