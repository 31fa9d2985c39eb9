import { z } from 'zod';
import { endpointNames } from '../endpoints/routes.ts';
import { isMediaHost } from '../media-hosts.ts';

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
  requests_per_minute: positive.optional(),
  tokens_per_minute: positive.optional(),
  tokens_per_month: positive.optional(),
  requests_per_day: positive.optional(),
  requests_at_once: positive.optional(),
  batch_requests_at_once: positive.optional(),
  batch_tokens_waiting: positive.optional(),
  priority: z.int().min(1).max(priorityMax).default(usualPriority),
  model_tiers: z.array(name).min(1),
});

const fieldName = z.string().regex(/^[A-Za-z_][\w.-]{0,127}$/, 'expected the name of a field, or "default"');

/** `extra_fields` defaults to `[default]` (`shared/endpoints/fields/extra-fields.ts`). */
const model = z.strictObject({
  tier: name,
  pool: poolName,
  backends: z.array(name).min(1),
  endpoints: z.array(z.enum(endpointNames)).min(1).default(['chat']),
  output_tokens_max: positive.max(1_000_000_000).optional(),
  extra_fields: z.array(fieldName).optional(),
  extra_tools: z.array(name).optional(),
});

const backend = z.strictObject({
  url: z.url({ protocol: /^https?$/ }),
  location: z.enum(['on-prem', 'cloud']),
  requests_at_once: positive.optional(),
  per_worker: z.boolean().optional(),
  model: z.string().min(1).max(256).optional(),
  api_key_env: z
    .string()
    .regex(/^[A-Za-z_][A-Za-z0-9_]*$/, 'expected the name of an environment variable')
    .optional(),
  whole_as_stream: z.boolean().optional(),
  output_limit_field: z.enum(['max_tokens', 'max_completion_tokens']).optional(),
  cache_salt: z.boolean().optional(),
  priority: z.boolean().optional(),
  relay_messages: z.boolean().optional(),
});

const pebibyte = 1_125_899_906_842_624;

const batch = z.strictObject({
  window_s: positive.default(86_400),
  requests_max: positive.max(50_000).default(50_000),
  file_bytes_max: positive.max(104_857_600).default(104_857_600),
  account_bytes_max: positive.max(pebibyte).default(10_737_418_240),
  account_files_max: positive.max(1_000_000).default(10_000),
  files_kept_days: positive.default(30),
  upload_bytes_per_second_min: positive.max(1_048_576).default(1_024),
});

const timeouts = z.strictObject({
  connect_ms: milliseconds.default(2_000),
  first_token_ms: milliseconds.default(30_000),
  idle_ms: milliseconds.default(30_000),
  request_ms: milliseconds.default(600_000),
  queue_ms: milliseconds.default(30_000),
});

export const planFileSchema = z.strictObject({
  default_plan: name,
  guest_calls_per_minute: positive.default(60),
  guest_mints_per_hour: positive.default(20),
  guest_mints_per_hour_total: positive.optional(),
  // If a device was removed earlier, it could still have tokens that count in this month.
  guest_days_kept: positive.min(62).max(36_500).default(400),
  usage_months_kept: positive.default(24),
  media_hosts: z
    .array(z.string().refine(isMediaHost, 'expected "*", "*.example.com", or a host name in lower case, no IP address'))
    .default([]),
  plans: z.record(name, plan),
  models: z.record(name, model),
  aliases: z.record(name, name).default({}),
  backends: z.record(name, backend),
  batch: batch.prefault({}),
  timeouts: timeouts.prefault({}),
});

export type RawPlanFile = z.infer<typeof planFileSchema>;
