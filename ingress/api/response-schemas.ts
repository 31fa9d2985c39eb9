import { z } from 'zod';
import { batchStates } from '../../shared/batches/batch.ts';

/** Schemas of successful responses, for the documentation and the console. */

const count = z.int().nonnegative();
const seconds = z.int().nonnegative().meta({ description: 'Seconds since 1970, UTC.' });
const time = z.iso.datetime();
const keyId = z.string().nullable().meta({ description: 'The API key that was used; null: a sign-in token.' });
const date = z.iso.date();
const displayName = z.string().optional().meta({ description: 'The display name of the account, if there is one.' });

export const mintedKey = z.strictObject({
  key: z.string().meta({ description: 'In full only when it is minted; masked later.' }),
  plan: z.string(),
});
export const rotatedKey = mintedKey.extend({ rotated: z.literal(true) });
export const revokedKey = mintedKey.extend({ revoked: z.literal(true) });
export const guestKey = mintedKey.extend({ rate_limit_per_day: count });

export const developerKey = z.strictObject({
  id: z.string(),
  key: z.string().meta({ description: 'Masked.' }),
  plan: z.string(),
  state: z.enum(['active', 'rotated', 'revoked']),
  createdAt: time,
  endedAt: time.optional(),
  lastUsedAt: time.optional(),
});
/** A key as operators see it. Its account also sees its settings and its usage. */
export const shownKey = z.strictObject({
  id: z.string(),
  name: z.string().meta({ description: '`default` for the key of `POST /v1/keys/developer`.' }),
  key: z.string().meta({ description: 'Masked.' }),
  default: z.boolean(),
  state: z.enum(['active', 'rotated', 'revoked', 'expired']).meta({
    description: 'A rotated key is valid until `valid_until`.',
  }),
  created_at: count.meta({ description: 'Seconds since 1970, UTC, like all times of a key.' }),
  expires_at: seconds.nullable(),
  valid_until: seconds.nullable().meta({ description: 'The end of the grace of a rotated key, while it lasts.' }),
  ended_at: seconds.nullable(),
  last_used_at: seconds.nullable().meta({ description: 'To the minute; uses of the last half minute may be missing.' }),
});
export const developerKeyList = z.strictObject({ object: z.literal('list'), data: z.array(developerKey) });

export const model = z.strictObject({
  id: z.string(),
  object: z.literal('model'),
  created: count,
  owned_by: z.string(),
  tier: z.string(),
  endpoints: z
    .array(z.string())
    .meta({ description: 'The endpoints that the model offers, as the plan file names them.' }),
});
export const modelList = z.strictObject({ object: z.literal('list'), data: z.array(model) });

export const file = z.strictObject({
  id: z.string(),
  object: z.literal('file'),
  bytes: count,
  created_at: seconds,
  expires_at: seconds,
  filename: z.string(),
  purpose: z.enum(['batch', 'batch_output']),
  status: z.literal('processed'),
  key_id: keyId,
});
export const deletedFile = z.strictObject({ id: z.string(), object: z.literal('file'), deleted: z.literal(true) });

const requestCounts = z.strictObject({ total: count, completed: count, failed: count });
const batchStatus = z.enum(batchStates);
const batchError = z.strictObject({
  code: z.string(),
  line: z.int().positive().nullable(),
  param: z.string().nullable(),
  message: z.string(),
});
const batchUsage = z.strictObject({
  input_tokens: count,
  input_tokens_details: z.strictObject({ cached_tokens: count }),
  output_tokens: count,
  output_tokens_details: z.strictObject({
    reasoning_tokens: count.meta({ description: 'Always 0: they are not counted separately.' }),
  }),
  total_tokens: count,
});
export const batch = z.strictObject({
  id: z.string(),
  object: z.literal('batch'),
  endpoint: z.string(),
  model: z
    .string()
    .nullable()
    .meta({ description: 'The model of all lines; null if they differ, or are not validated.' }),
  errors: z.strictObject({ object: z.literal('list'), data: z.array(batchError) }).nullable(),
  input_file_id: z.string(),
  input_filename: z.string().meta({ description: 'The name of its file.' }),
  completion_window: z.string(),
  status: batchStatus,
  output_file_id: z.string().nullable(),
  error_file_id: z.string().nullable(),
  created_at: seconds,
  in_progress_at: seconds.nullable(),
  expires_at: seconds,
  finalizing_at: seconds.nullable(),
  completed_at: seconds.nullable(),
  failed_at: seconds.nullable(),
  expired_at: seconds.nullable(),
  cancelling_at: seconds.nullable(),
  cancelled_at: seconds.nullable(),
  request_counts: requestCounts,
  usage: batchUsage.nullable().meta({ description: 'Tokens of all results; null until the batch has ended.' }),
  error_counts: z.record(z.string(), count).nullable().meta({
    description:
      'Failed lines by the code of their error, or the status of their response (`status_400`); null until it has ended.',
  }),
  metadata: z.record(z.string(), z.string()).nullable(),
  key_id: keyId,
});

const page = { first_id: z.string().nullable(), last_id: z.string().nullable(), has_more: z.boolean() };
export const fileList = z.strictObject({ object: z.literal('list'), data: z.array(file), ...page });
export const batchList = z.strictObject({ object: z.literal('list'), data: z.array(batch), ...page });

export const quota = z.strictObject({
  plan: z.string(),
  unit: z.literal('tokens'),
  period: z.strictObject({ start: date, end: date }),
  limit: count.nullable().meta({ description: 'Includes top-ups; null: no limit.' }),
  used: count,
  reserved: count,
  remaining: count.nullable(),
  overageEnabled: z.boolean(),
  overageUsed: count,
  overageLimit: count.nullable().meta({ description: 'The most overage in a month, if it is on; null: no bound.' }),
  topUp: count,
  resetDate: date,
  topupUrl: z.string(),
});

const limit = count.nullable();
export const planLimits = z.strictObject({
  plan: z.string(),
  requestsPerMinute: limit,
  tokensPerMinute: limit,
  tokensPerMonth: limit,
  overage: z.enum(['self-service', 'operator']).meta({ description: 'Who turns overage on and off.' }),
  overageTokensPerMonth: limit,
  requestsPerDay: limit,
  requestsAtOnce: limit,
  batchRequestsAtOnce: limit,
  batchTokensWaiting: limit,
  models: z.array(z.string()),
});
const useOfLimit = z.strictObject({ limit, used: count });
const useInMinute = useOfLimit.extend({
  resetMs: count.meta({ description: 'Milliseconds until all of it has left the last 60 seconds.' }),
});
export const limitsInUse = z.strictObject({
  plan: z.string(),
  requestsPerMinute: useInMinute,
  tokensPerMinute: useInMinute,
  requestsPerDay: useOfLimit,
  requestsAtOnce: useOfLimit,
  batchRequestsAtOnce: useOfLimit,
});
export const planList = z.strictObject({ object: z.literal('list'), data: z.array(planLimits) });

const topUp = z.strictObject({ id: z.string(), tokens: z.int().positive() });
const step = z.strictObject({ from: z.string(), to: z.string() });
const auditedChange = z.strictObject({
  plan: step.optional(),
  suspended: z.boolean().optional(),
  overageEnabled: z.boolean().optional(),
  topUp: topUp.optional(),
  keyRevoked: z
    .string()
    .optional()
    .meta({ description: 'A key; in the audit trail only if an operator has revoked it.' }),
  batchCancelled: z.string().optional().meta({ description: 'A batch that an operator has cancelled.' }),
  requestEnded: z.string().optional().meta({ description: 'A request that an operator has ended.' }),
  backendPaused: z
    .strictObject({ backend: z.string(), minutes: z.int() })
    .optional()
    .meta({ description: 'A backend that this operator has paused.' }),
  backendResumed: z.string().optional().meta({ description: 'A backend whose pause this operator has ended.' }),
  accountRemoved: z.literal(true).optional().meta({ description: 'An operator has removed the account.' }),
});
const accountChange = z.strictObject({
  at: time,
  by: z.string(),
  keyMinted: z.string().optional(),
  keyRotated: step.optional(),
  keyChanged: z.string().optional(),
  ...auditedChange.shape,
});
/** After a change: without batches, which it does not affect. */
export const changedAccount = z.strictObject({
  account: z.string(),
  plan: z.string(),
  overageEnabled: z.boolean(),
  topUp: count,
  suspended: z.boolean(),
  createdAt: time,
  keys: z
    .array(shownKey)
    .meta({ description: 'The default key, then further keys, then those that have ended, latest first.' }),
  changes: z.array(accountChange),
});
/** A batch as operators see it: without what its owner has written. */
export const operatorBatch = batch.omit({ errors: true, metadata: true }).extend({ account: z.string() });
export const operatorBatchList = z.strictObject({ object: z.literal('list'), data: z.array(operatorBatch), ...page });
export const account = changedAccount.extend({ name: displayName, batches: z.array(operatorBatch) });

const accountSummary = z.strictObject({
  account: z.string(),
  name: displayName,
  plan: z.string(),
  overageEnabled: z.boolean(),
  suspended: z.boolean(),
  createdAt: time,
});
export const accountList = z.strictObject({
  object: z.literal('list'),
  data: z.array(accountSummary),
  has_more: z.boolean(),
});

const auditRecord = z.strictObject({
  id: z.string(),
  at: time,
  actor: z.string().meta({ description: 'The account that made the change.' }),
  address: z.string().nullable().meta({ description: 'The client address of the change; null: not stored.' }),
  account: z.string().meta({ description: 'The account or device that was changed.' }),
  change: auditedChange,
  reason: z.string().nullable(),
  actor_name: displayName,
  account_name: displayName,
});
export const auditRecordList = z.strictObject({ object: z.literal('list'), data: z.array(auditRecord), ...page });

export const home = z.strictObject({ console: z.string(), docs: z.string(), openapi: z.string() });

export type Home = z.infer<typeof home>;
export type MintedKey = z.infer<typeof mintedKey>;
export type GuestKey = z.infer<typeof guestKey>;
export type DeveloperKey = z.infer<typeof developerKey>;
export type ShownKey = z.infer<typeof shownKey>;
export type Model = z.infer<typeof model>;
export type File = z.infer<typeof file>;
export type Batch = z.infer<typeof batch>;
export type Quota = z.infer<typeof quota>;
export type LimitsInUse = z.infer<typeof limitsInUse>;
export type PlanLimits = z.infer<typeof planLimits>;
export type Account = z.infer<typeof account>;
export type ChangedAccount = z.infer<typeof changedAccount>;
export type OperatorBatch = z.infer<typeof operatorBatch>;
export type AccountSummary = z.infer<typeof accountSummary>;
export type AuditRecord = z.infer<typeof auditRecord>;
