import { z } from 'zod';
import { usageAttemptSchema } from '../store/usage/usage-record.ts';

/**
 * A call to a backend, as it waits in a queue. `payload` is the client's JSON object as text, without `model`, `stream` and the fields of
 * the output limit, so that a worker can insert its backend's own fields in front without parsing it. `outputTokensMax` is the output limit
 * of each choice, 0 if the endpoint generates no text, `limitFields` are the names under which the client has set it, and `promptEstimate`
 * the prompt tokens that admission has estimated. `earlierRuns` are the runs that workers gave back. `assembled`: the client wants a
 * complete response, and its options allow the worker to request a stream from the backend and assemble the response from it; `payload`
 * then has no field about streaming. `endpoint` is the path of the endpoint. `requestedModel` is the name that the client sent, if it is an
 * alias of `model`. `headers` are those of the client that the backend gets. `affinity`: what it has in common with
 * requests that should go to the same backend (`affinity-keys.ts`).
 */
export const queuedCallSchema = z.object({
  requestId: z.string(),
  account: z.string(),
  keyId: z.string(),
  model: z.string(),
  tier: z.string(),
  requestedModel: z.string().optional(),
  endpoint: z.string(),
  headers: z.record(z.string(), z.string()).optional(),
  stream: z.boolean(),
  includeUsage: z.boolean(),
  assembled: z.boolean(),
  outputTokensMax: z.int().nonnegative(),
  limitFields: z.array(z.string()),
  promptEstimate: z.int().nonnegative(),
  choices: z.int().positive(),
  affinity: z.object({ keys: z.array(z.string()), isFirstTurn: z.boolean() }).optional(),
  payload: z.string(),
  earlierRuns: z.array(z.object({ run: z.int().positive(), attempts: z.array(usageAttemptSchema) })),
});

export type QueuedCall = z.infer<typeof queuedCallSchema>;

/**
 * A job whose client waits for replies at `replyTo`. Times are milliseconds of Redis's clock. `claim` is set if the request has an
 * idempotency key: an answer of up to `answerBytesMax` is kept, also if no client waits for it any more; none if that is 0. `trace` is set
 * if it is traced.
 */
export const inferenceJobSchema = queuedCallSchema.extend({
  plan: z.string(),
  replyTo: z.string(),
  admittedAt: z.number(),
  startBy: z.number(),
  deadline: z.number(),
  overage: z.boolean(),
  claim: z
    .object({ idempotencyKey: z.string(), bodyMark: z.string(), answerBytesMax: z.int().nonnegative() })
    .optional(),
  trace: z.object({ traceparent: z.string(), tracestate: z.string().optional() }).optional(),
});

export type InferenceJob = z.infer<typeof inferenceJobSchema>;
