import { z } from 'zod';
import { usageMonthSchema } from '../../shared/store/usage/usage-record.ts';
import { detailCountsSchema, usageCountsSchema } from '../../shared/store/usage/usage-sums.ts';

/** Schemas of successful responses, for the documentation and the console. */

/** In the order in which reports have them. */
export const groupNames = ['account', 'day', 'model', 'key', 'endpoint'] as const;
export type GroupName = (typeof groupNames)[number];

const count = z.int().nonnegative();
const date = z.iso.date();

const usageCounts = usageCountsSchema.shape;
const usageDay = z.strictObject({ day: date, model: z.string(), ...usageCounts });
export const usage = z.strictObject({
  month: usageMonthSchema,
  unit: z.literal('tokens'),
  total: z.strictObject(usageCounts),
  data: z.array(usageDay).meta({ description: 'By the day (UTC) of admission, then by model.' }),
});

const detailCounts = detailCountsSchema.shape;
const costs = {
  cost: z
    .string()
    .optional()
    .meta({ description: 'The cost of the tokens that have a price, exact. Only if the operator has set prices.' }),
  unpricedTokens: count.optional().meta({ description: 'Tokens without a price on their day. Only with `cost`.' }),
};
export const usageReport = z.strictObject({
  start: date,
  end: date.meta({ description: 'The last day; it is included.' }),
  unit: z.literal('tokens'),
  groupBy: z.array(z.enum(groupNames)),
  currency: z.string().optional().meta({ description: 'Of `cost`, ISO 4217.' }),
  total: z.strictObject({ ...detailCounts, ...costs }).meta({ description: 'Of all usage in the range.' }),
  data: z
    .array(
      z.strictObject({
        account: z.string().optional(),
        name: z.string().optional().meta({ description: 'The display name of the account.' }),
        day: date.optional().meta({ description: 'The day of admission, UTC.' }),
        model: z.string().optional().meta({ description: 'The own name of the model, if an alias was used.' }),
        key: z
          .string()
          .nullable()
          .optional()
          .meta({ description: 'The id of the API key that was used; null: a sign-in token.' }),
        endpoint: z.string().optional().meta({ description: 'The path of the endpoint.' }),
        ...detailCounts,
        ...costs,
      }),
    )
    .meta({ description: 'At most 10,000 rows, with a field for each group, by their values.' }),
});
/** A month in its own form, or a range of days. */
export const usageOrReport = z.union([usage, usageReport]);

export type Usage = z.infer<typeof usage>;
export type UsageDay = z.infer<typeof usageDay>;
export type UsageReport = z.infer<typeof usageReport>;
export type UsageRow = UsageReport['data'][number];
