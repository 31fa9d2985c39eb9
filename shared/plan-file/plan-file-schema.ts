import { z } from 'zod';
import { endpointNames } from '../endpoints/routes.ts';
import { isMediaHost } from '../media-hosts.ts';
import { backendSchema } from './backend-schema.ts';
import { priceFields } from './plan-prices.ts';

/** The plan file as its text has it: names in snake case, units in the names. */

const name = z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._:/@-]{0,127}$/, 'expected a name of letters, digits and ._:/@-');
// A pool is a name in `POOLS`, where commas separate names.
const poolName = z.string().regex(/^[a-z0-9][a-z0-9-]{0,62}$/, 'expected a name of lower-case letters, digits and -');
const positive = z.int().positive();
const milliseconds = z.int().positive().max(86_400_000);

/** The only plan of devices. */
export const guestPlan = 'guest-device';

/** A lower priority is served first; the first is the default of a plan. */
export const usualPriority = 1_000;
export const priorityMax = 2_097_151;

/** An omitted limit means unlimited (contract.md#t6-limits-of-a-plan). */
const plan = z.strictObject({
  requests_per_minute: positive.optional().describe('Requests of an account per minute'),
  tokens_per_minute: positive
    .optional()
    .describe('Tokens of an account per minute: of prompts, and of the output that requests may produce'),
  tokens_per_month: positive.optional().describe('The quota: tokens of an account per calendar month, UTC'),
  overage: z
    .enum(['self-service', 'operator'])
    .default('self-service')
    .describe('Who turns overage on and off: the account itself, too, or only operators'),
  overage_tokens_per_month: positive
    .optional()
    .describe('The most overage of an account per calendar month, if overage is on'),
  requests_per_day: positive.optional().describe('Requests of an account per day, UTC'),
  requests_at_once: positive.optional().describe('Requests of an account that wait or run'),
  batch_requests_at_once: positive.optional().describe('Lines of batches of an account that run at once'),
  batch_tokens_waiting: positive.optional().describe('Tokens that the unfinished batches of an account may hold'),
  priority: z.int().min(1).max(priorityMax).default(usualPriority).describe('Requests with a lower priority run first'),
  model_tiers: z.array(name).min(1).describe('Tiers of models that the plan includes'),
});

const fieldName = z.string().regex(/^[A-Za-z_][\w.-]{0,127}$/, 'expected the name of a field, or "default"');

/** `extra_fields` defaults to `[default]` (`shared/endpoints/fields/extra-fields.ts`). */
const model = z.strictObject({
  tier: name.describe('The tier, which plans list in model_tiers'),
  pool: poolName.describe('The pool, which workers list in POOLS'),
  backends: z.array(name).min(1).describe('Names of the backends that serve the model'),
  endpoints: z.array(z.enum(endpointNames)).min(1).default(['chat']).describe('The endpoints that it offers'),
  output_tokens_max: positive
    .max(1_000_000_000)
    .optional()
    .describe('Max output tokens of one choice. Required if one of its endpoints generates text'),
  answer_bytes_max: positive
    .max(67_108_864)
    .optional()
    .describe('Bytes of one answer that is not streamed. Default: 4194304, of embeddings 16777216'),
  extra_fields: z
    .array(fieldName)
    .optional()
    .describe('Fields of requests that may reach a backend beyond the published ones. Default: [default]'),
  queue_ms: milliseconds.optional().describe('Time until the job of a request starts. Default: timeouts.queue_ms'),
  clamp_output_tokens: z
    .boolean()
    .optional()
    .describe('true: a larger output limit of a client is lowered to output_tokens_max, instead of a 400'),
  extra_tools: z.array(name).optional().describe('Types of tools that requests may have beyond function and custom'),
  unknown_fields: z
    .enum(['refuse', 'drop'])
    .optional()
    .describe('What happens to fields that no description and no model server has. Default: refuse'),
});

const pebibyte = 1_125_899_906_842_624;

const batch = z.strictObject({
  window_s: positive.default(86_400).describe('Seconds until a batch expires'),
  requests_max: positive.max(50_000).default(50_000).describe('Lines of an input file'),
  file_bytes_max: positive.max(104_857_600).default(104_857_600).describe('Bytes of an input file'),
  account_bytes_max: positive
    .max(pebibyte)
    .default(10_737_418_240)
    .describe('Bytes of all files and results of an account'),
  account_files_max: positive.max(1_000_000).default(10_000).describe('Files of an account'),
  files_kept_days: positive.default(30).describe('Days until a file is deleted'),
  upload_bytes_per_second_min: positive.max(1_048_576).default(1_024).describe('Minimum rate of an upload'),
});

const timeouts = z.strictObject({
  connect_ms: milliseconds.default(2_000).describe('Time to connect to a backend'),
  first_token_ms: milliseconds.default(30_000).describe('Time until the first token of a stream'),
  idle_ms: milliseconds.default(30_000).describe('Time between two events of a stream'),
  request_ms: milliseconds.default(600_000).describe('Time of a request in total'),
  queue_ms: milliseconds.default(30_000).describe('Time until the job of a request starts'),
});

export const planFileSchema = z.strictObject({
  default_plan: name.describe('The plan of new accounts'),
  guest_calls_per_minute: positive.default(60).describe('Calls for guest keys from one network per minute'),
  guest_mints_per_hour: positive.default(20).describe('New devices from one network per hour'),
  guest_mints_per_hour_total: positive
    .optional()
    .describe('New devices from all networks per hour. Left out: no limit'),
  // If a device was removed earlier, it could still have tokens that count in this month.
  guest_days_kept: positive
    .min(62)
    .max(36_500)
    .default(400)
    .describe('Days without use after which a device is removed'),
  usage_months_kept: positive.default(24).describe('Closed months whose usage is kept'),
  media_hosts: z
    .array(z.string().refine(isMediaHost, 'expected "*", "*.example.com", or a host name in lower case, no IP address'))
    .default([])
    .describe('Hosts of images, audio and files that requests may name'),
  plans: z
    .record(name, plan)
    .describe('Plans by name. A limit that is left out does not apply. guest-device is required'),
  models: z.record(name, model).describe('Models by the names that clients use'),
  aliases: z.record(name, name).default({}).describe('Other names of models'),
  backends: z.record(name, backendSchema).describe('Backends by name'),
  batch: batch.prefault({}).describe('Bounds of files and batches'),
  timeouts: timeouts.prefault({}).describe('Time limits in milliseconds'),
  ...priceFields,
});

export type RawPlanFile = z.infer<typeof planFileSchema>;
