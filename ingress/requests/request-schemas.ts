import { z } from 'zod';
import { usageOutcomes } from '../../shared/store/usage/usage-record.ts';

const count = z.int().nonnegative();

const attempt = z.strictObject({
  location: z
    .enum(['on-prem', 'cloud'])
    .nullable()
    .meta({ description: 'Of the model server; null if the server is no longer in the plan file, or is not known.' }),
  outcome: z.string().meta({ description: '`answered`, or what came instead: see Find a request.' }),
  ms: count.nullable().meta({ description: 'Milliseconds; null if they are not known.' }),
});

const usage = z.strictObject({
  prompt_tokens: count,
  completion_tokens: count,
  total_tokens: count,
  estimated: z.boolean().meta({ description: 'Whether the service has counted, because the model server did not.' }),
});

export const request = z.strictObject({
  id: z.string().meta({ description: 'The `x-request-id`.' }),
  answer_id: z
    .string()
    .nullable()
    .meta({ description: 'The id that the model server gave its answer, if it has ended.' }),
  object: z.literal('request'),
  endpoint: z.string(),
  model: z.string(),
  state: z.enum(['queued', 'running', 'streaming', 'ended']),
  outcome: z.enum(usageOutcomes).nullable().meta({ description: 'Null until it has ended.' }),
  created_at: count.meta({ description: 'Seconds since 1970, UTC.' }),
  queue_ms: count.nullable().meta({ description: 'Milliseconds in the queue.' }),
  first_token_ms: count.nullable().meta({ description: 'Milliseconds from its admission to the first token.' }),
  duration_ms: count.nullable().meta({ description: 'Milliseconds from its admission to its end.' }),
  attempts: z.array(attempt).meta({ description: 'Calls of model servers, in order; none until it has ended.' }),
  usage: usage.nullable().meta({ description: 'Null until it has ended.' }),
  charged_tokens: count.nullable().meta({ description: 'Null until it has ended.' }),
  key_id: z.string().nullable(),
});

export const operatorRequest = request.extend({
  account: z.string(),
  attempts: z.array(attempt.extend({ backend: z.string().nullable() })),
});

export const requestList = z.strictObject({
  object: z.literal('list'),
  data: z.array(request),
  first_id: z.string().nullable(),
  last_id: z.string().nullable().meta({ description: 'Where the next page begins: not always in `data`.' }),
  has_more: z.boolean(),
});

export const operatorRequestList = requestList.extend({ data: z.array(operatorRequest) });

export type Request = z.infer<typeof request>;
export type OperatorRequest = z.infer<typeof operatorRequest>;
export type OperatorRequestList = z.infer<typeof operatorRequestList>;
export type RequestList = z.infer<typeof requestList>;
