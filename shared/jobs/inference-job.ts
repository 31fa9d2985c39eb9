import { z } from 'zod';
import { usageAttemptSchema } from '../store/usage/usage-record.ts';

/**
 * What is to be asked of a backend, as it waits in a queue. `body` is the client's JSON object as text, without `model` and the
 * names of the output limit, so that a worker can put its backend's own in front without parsing it; `outputTokensMax` is that
 * limit, for each choice. `earlierRuns` are those that a worker has handed back. `assembled`: the client wants its answer whole,
 * and nothing it asks for keeps the backend from being asked for a stream all the same, of which the worker makes the answer;
 * `body` then says nothing about streaming.
 */
export const queuedCallSchema = z.object({
  requestId: z.string(),
  account: z.string(),
  keyId: z.string(),
  model: z.string(),
  tier: z.string(),
  endpoint: z.literal('/v1/chat/completions'),
  stream: z.boolean(),
  includeUsage: z.boolean(),
  // A job may have been queued before there was a choice.
  assembled: z.boolean().default(false),
  outputTokensMax: z.int().positive(),
  body: z.string(),
  earlierRuns: z.array(z.object({ run: z.int().positive(), attempts: z.array(usageAttemptSchema) })),
});

export type QueuedCall = z.infer<typeof queuedCallSchema>;

/** A request that a client waits for at `replyTo`. Times are milliseconds of Redis's clock. */
export const inferenceJobSchema = queuedCallSchema.extend({
  plan: z.string(),
  replyTo: z.string(),
  admittedAt: z.number(),
  startBy: z.number(),
  deadline: z.number(),
  overage: z.boolean(),
});

export type InferenceJob = z.infer<typeof inferenceJobSchema>;
