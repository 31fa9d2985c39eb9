import { z } from 'zod';

/**
 * One request as it waits in the queue. `body` is the client's JSON object as text, with `model` left out, so that a
 * worker can put its backend's own name in front without parsing it. Times are milliseconds of Redis's clock.
 */
export const inferenceJobSchema = z.object({
  requestId: z.string(),
  account: z.string(),
  keyId: z.string(),
  plan: z.string(),
  model: z.string(),
  endpoint: z.literal('/v1/chat/completions'),
  stream: z.boolean(),
  includeUsage: z.boolean(),
  body: z.string(),
  replyTo: z.string(),
  admittedAt: z.number(),
  startBy: z.number(),
  deadline: z.number(),
});

export type InferenceJob = z.infer<typeof inferenceJobSchema>;
