import { z } from 'zod';
import { endpoints } from '../../shared/endpoints/endpoints.ts';
import { validationError } from '../../shared/errors.ts';
import type { PlanFile } from '../../shared/plan-file/plan-file.ts';
import { type KeyFields, keyFilesSchema } from '../../shared/store/records/key.ts';
import { latestTime } from '../api/response-fields.ts';
import { named } from '../api/route.ts';
import { isAddressRange } from '../authentication/check-caller.ts';
import { shownText } from '../listener/json-body.ts';

/** Every ingress keeps the lists of the keys that it sees in memory. */
const namesMax = 50;
/** Sums stay exact integers in JavaScript and Lua. */
const limitMax = 1e12;
const graceSecondsMax = 604_800;

const list = <Item extends z.ZodType>(item: Item) =>
  z
    .array(item)
    .min(1, 'expected at least one entry')
    .max(namesMax)
    .refine((items) => new Set(items).size === items.length, 'expected each only once');
const limit = z.int().min(1).max(limitMax).nullish();
const paths = endpoints.map(({ path }) => path);

const name = z
  .string()
  .regex(/^[^\p{Cc}\p{Cs}]{1,100}$/u, 'expected 1 to 100 characters')
  .meta({ description: 'What the key is for. Names need not be unique.' });
const others = {
  expires_at: z
    .int()
    .min(0)
    .max(latestTime)
    .nullish()
    .meta({ description: 'From then on the key is rejected. Seconds since 1970, UTC; null: never.' }),
  endpoints: list(z.enum(paths)).nullish().meta({ description: 'The only endpoints that the key may use; null: all.' }),
  models: list(z.string().min(1).max(200))
    .nullish()
    .meta({ description: 'The only models, or their aliases, that the key may use; null: all of the plan.' }),
  allowed_ips: list(z.string().refine(isAddressRange, 'expected an IP address or a range in CIDR notation'))
    .nullish()
    .meta({ description: 'The only client addresses, or CIDR ranges of them, that may use the key; null: all.' }),
  limits: z
    .strictObject({ requests_per_minute: limit, tokens_per_minute: limit, tokens_per_month: limit })
    .nullish()
    .meta({ description: "Limits of the key, in addition to those of the account's plan; null: none." }),
  files: keyFilesSchema.nullish().meta({
    description:
      'The files and batches that the key may use: `none`; `own`: those that it has made; `read`: it reads all, and changes those that it has made; `all`. null: `own` for a key with `endpoints` or `models`, else `all`.',
  }),
};

export const newKeyBody = named('NewKey', z.strictObject({ name, ...others }));
export const keyChangeBody = named('KeyChange', z.strictObject({ name: name.optional(), ...others }));
export const rotationBody = named(
  'KeyRotation',
  z.strictObject({
    grace_seconds: z
      .int()
      .min(0)
      .max(graceSecondsMax)
      .default(0)
      .meta({ description: 'For how long the old key stays valid; at most seven days.' }),
  }),
);

type Body = z.infer<typeof keyChangeBody>;

/**
 * Returns the fields that are set, for the store; a field that is null is undefined there. `now` is Redis's time. Fails with
 * `VALIDATION_ERROR` for an end that has passed, and for a model that the plan file does not have.
 */
export function keyFieldsOf(given: Body, { now, planFile }: { now: number; planFile: PlanFile }): Partial<KeyFields> {
  const { expires_at: expiresAt, models, allowed_ips: allowedIps } = given;
  if (typeof expiresAt === 'number' && expiresAt * 1000 <= now) {
    throw validationError([{ path: 'expires_at', message: 'expected a time that has not passed' }]);
  }
  const unknown = models?.find((each) => !isModel(each, planFile));
  if (unknown !== undefined) {
    throw validationError([{ path: 'models', message: `there is no model "${shownText(unknown)}"` }]);
  }
  return {
    ...(given.name !== undefined && { name: given.name }),
    ...(expiresAt !== undefined && { expiresAt: expiresAt === null ? undefined : new Date(expiresAt * 1000) }),
    ...(given.endpoints !== undefined && { endpoints: given.endpoints ?? undefined }),
    ...(models !== undefined && { models: models ?? undefined }),
    ...(allowedIps !== undefined && { allowedIps: allowedIps ?? undefined }),
    ...(given.limits !== undefined && { limits: limitsOf(given.limits) }),
    ...(given.files !== undefined && { files: given.files ?? undefined }),
  };
}

function isModel(wanted: string, { models, aliases }: PlanFile): boolean {
  return Object.hasOwn(models, wanted) || Object.hasOwn(aliases, wanted);
}

function limitsOf(given: Body['limits']): KeyFields['limits'] {
  const { requests_per_minute: requests, tokens_per_minute: tokens, tokens_per_month: perMonth } = given ?? {};
  const limits = {
    ...(typeof requests === 'number' && { requestsPerMinute: requests }),
    ...(typeof tokens === 'number' && { tokensPerMinute: tokens }),
    ...(typeof perMonth === 'number' && { tokensPerMonth: perMonth }),
  };
  return Object.keys(limits).length === 0 ? undefined : limits;
}
