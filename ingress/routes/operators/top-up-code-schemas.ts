import { z } from 'zod';
import { shownCodeStates } from '../../../shared/store/top-up-codes/top-up-code.ts';

/** The requests and responses of the routes for top-up codes. */

/** As for one top-up by an operator. */
const tokensMax = 1e12;
const countMax = 1_000;
/** The last second of the year 9999. */
const latestTime = 253_402_300_799;

export const newCodesBody = z.strictObject({
  tokens: z.int().positive().max(tokensMax).meta({ description: 'What each code adds to the month of its account.' }),
  count: z.int().min(1).max(countMax).default(1).meta({ description: 'How many codes.' }),
  expires_at: z
    .int()
    .min(0)
    .max(latestTime)
    .nullish()
    .meta({ description: 'From then on the codes cannot be redeemed. Seconds since 1970, UTC; null: never.' }),
  note: z
    .string()
    .regex(/^[^\p{Cc}\p{Cs}\p{Zl}\p{Zp}]{1,500}$/u, 'expected 1 to 500 characters, no control characters')
    .nullish()
    .meta({ description: 'What the codes are for, for operators.' }),
});

const seconds = z.int().nonnegative();
const tokens = z.int().positive();
const id = z.string();

export const createdTopUpCodes = z.strictObject({
  object: z.literal('list'),
  data: z.array(
    z.strictObject({
      id,
      code: z.string().meta({ description: 'In full only in this response.' }),
      tokens,
      expires_at: seconds.nullable(),
    }),
  ),
});

export const topUpCode = z.strictObject({
  id,
  object: z.literal('top_up_code'),
  tokens,
  state: z.enum(shownCodeStates),
  note: z.string().nullable(),
  created_at: seconds.meta({ description: 'Seconds since 1970, UTC.' }),
  created_by: z.string().meta({ description: 'The account of the operator.' }),
  created_from: z.string().meta({ description: 'The client address of the operator.' }),
  expires_at: seconds.nullable().meta({ description: 'null: never.' }),
  redeemed_at: seconds.nullable(),
  redeemed_by: z.string().nullable().meta({ description: 'The account that has redeemed it.' }),
  applied_at: seconds
    .nullable()
    .meta({ description: 'Since when its tokens certainly count; null for a few seconds after it was redeemed.' }),
  revoked_at: seconds.nullable(),
  revoked_by: z.string().nullable(),
  revoked_from: z.string().nullable(),
});

export const topUpCodeList = z.strictObject({
  object: z.literal('list'),
  data: z.array(topUpCode),
  first_id: z.string().nullable(),
  last_id: z.string().nullable(),
  has_more: z.boolean(),
});

export type CreatedTopUpCode = z.infer<typeof createdTopUpCodes>['data'][number];
export type ShownTopUpCode = z.infer<typeof topUpCode>;
