import { z } from 'zod';
import { keyFilesSchema } from '../../../shared/store/accounts/key.ts';
import { usageMonthSchema } from '../../../shared/store/usage/usage-record.ts';
import { shownKey } from '../../api/response-schemas.ts';

/** Schemas of the responses about keys, for the documentation and the console. */

const count = z.int().nonnegative();
const names = z.array(z.string()).nullable();
const limit = z.int().positive().nullable();

export const key = z.strictObject({
  object: z.literal('key'),
  ...shownKey.shape,
  endpoints: names,
  models: names,
  allowed_ips: names,
  limits: z.strictObject({ requests_per_minute: limit, tokens_per_minute: limit, tokens_per_month: limit }).nullable(),
  files: keyFilesSchema.meta({ description: 'The files and batches that it may use.' }),
  usage: z
    .strictObject({ month: usageMonthSchema, requests: count, tokens: count })
    .nullable()
    .meta({ description: 'Of this month (UTC), as far as it is stored; null while the store cannot tell.' }),
});
export const keyList = z.strictObject({
  object: z.literal('list'),
  data: z.array(key),
  first_id: z.string().nullable(),
  last_id: z.string().nullable(),
  has_more: z.boolean(),
});
const fullKey = z.string().meta({ description: 'The key in full, only this once.' });
export const createdKey = key.extend({ key: fullKey });
export const successorKey = createdKey.extend({ replaces: key });
export const ownKey = key.extend({
  plan: z.string(),
  day: z
    .strictObject({ requests: count, limit: count.nullable() })
    .meta({ description: 'Requests of the account today (UTC), and how many its plan allows a day; null: no limit.' }),
});

export type Key = z.infer<typeof key>;
export type CreatedKey = z.infer<typeof createdKey>;
export type OwnKey = z.infer<typeof ownKey>;
export type SuccessorKey = z.infer<typeof successorKey>;
