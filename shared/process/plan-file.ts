import { type Document, isCollection, LineCounter, parseDocument, visit } from 'yaml';
import { z } from 'zod';
import { endpointNames, generatingNames } from '../endpoints/routes.ts';
import { isMediaHost } from '../media-hosts.ts';
import { type ValidationIssue, validationIssuesOf } from '../validation-issues.ts';

const name = z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._:/@-]{0,127}$/, 'expected a name of letters, digits and ._:/@-');
// A pool is a name in `POOLS`, where commas separate names.
const poolName = z.string().regex(/^[a-z0-9][a-z0-9-]{0,62}$/, 'expected a name of lower-case letters, digits and -');
const positive = z.int().positive();
const milliseconds = z.int().positive().max(86_400_000);

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

const planFileSchema = z.strictObject({
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

type RawPlanFile = z.infer<typeof planFileSchema>;

/** The plan file in code: its names in camel case, its units as in the file (milliseconds, tokens, requests). Frozen. */
export type PlanFile = Camel<RawPlanFile>;
export type Plan = PlanFile['plans'][string];
export type Model = PlanFile['models'][string];
export type Backend = PlanFile['backends'][string];
export type Timeouts = PlanFile['timeouts'];

/** The only plan of devices. */
export const guestPlan = 'guest-device';
const guestTier = 'guest';

/** A file of another kind has nothing but issues. A name or an alias in them may be as long as the file. */
const issuesMax = 100;
const [pathLengthMax, messageLengthMax] = [200, 1_000];

/**
 * Parses the plan file. Returns it, or its issues by their paths (`models.small-chat.backends[1]`), at most a hundred
 * (contract.md#s4-plan-file).
 */
export function parsePlanFile(text: string): { planFile: PlanFile } | { issues: ValidationIssue[] } {
  const yaml = parseYaml(text);
  if ('issues' in yaml) return shortened(yaml.issues);
  const parsed = planFileSchema.safeParse(yaml.value);
  if (!parsed.success) return shortened(validationIssuesOf(parsed.error));
  const issues = crossCheck(parsed.data);
  return issues.length > 0 ? shortened(issues) : { planFile: camelCase(parsed.data) };
}

function shortened(issues: readonly ValidationIssue[]): { issues: ValidationIssue[] } {
  // Cut in the middle: if the issue is at a line of the file, the line is at the end of the message.
  const cut = (text: string, max: number) =>
    text.length > max ? `${text.slice(0, max / 2)}…${text.slice(-max / 2)}` : text;
  return {
    issues: issues
      .slice(0, issuesMax)
      .map(({ path, message }) => ({ path: cut(path, pathLengthMax), message: cut(message, messageLengthMax) })),
  };
}

function parseYaml(text: string): { value: unknown } | { issues: ValidationIssue[] } {
  const lineCounter = new LineCounter();
  // A warning would be printed as a process warning, outside the log. The problem is reported as an issue anyway.
  const document = parseDocument(text, { prettyErrors: true, logLevel: 'error', lineCounter });
  if (document.errors.length > 0) return { issues: document.errors.map(({ message }) => ({ path: '', message })) };
  try {
    const wrongKeys = keysThatAreNoText(document, lineCounter);
    return wrongKeys.length > 0 ? { issues: wrongKeys } : { value: document.toJS() };
  } catch (error) {
    // An undefined alias, which the message names, or too many aliases; or a wrong merge or ordered map, whose place it does not name.
    const { message } = error as Error; // YAML throws only errors
    const path = /^merge/i.test(message) ? '<<' : /^ordered maps/i.test(message) ? '!!omap' : '';
    return { issues: [{ path, message }] };
  }
}

/** A list or a map as a key is never meant. To make texts of such keys within each other can take minutes. */
function keysThatAreNoText(document: Document.Parsed, lineCounter: LineCounter): ValidationIssue[] {
  const issues: ValidationIssue[] = [];
  visit(document, {
    Pair(_, { key }) {
      if (!isCollection(key)) return undefined;
      const { line, col } = lineCounter.linePos(key.range?.[0] ?? 0);
      issues.push({ path: '', message: `a key is a list or a map, not a text, at line ${line}, column ${col}` });
      return visit.SKIP;
    },
  });
  return issues;
}

function crossCheck({ plans, models, aliases, backends, default_plan }: RawPlanFile): ValidationIssue[] {
  const issues: ValidationIssue[] = [];
  if (!Object.hasOwn(plans, default_plan)) {
    issues.push({ path: 'default_plan', message: `there is no plan "${default_plan}"` });
  }
  for (const [modelName, { backends: names, endpoints, output_tokens_max }] of Object.entries(models)) {
    const generating = endpoints.find((endpoint) => generatingNames.includes(endpoint));
    if (generating !== undefined && output_tokens_max === undefined) {
      issues.push({ path: `models.${modelName}.output_tokens_max`, message: `is required for ${generating}` });
    }
    names.forEach((backendName, index) => {
      if (Object.hasOwn(backends, backendName)) return;
      issues.push({ path: `models.${modelName}.backends[${index}]`, message: `there is no backend "${backendName}"` });
    });
  }
  for (const [alias, target] of Object.entries(aliases)) {
    const path = `aliases.${alias}`;
    if (Object.hasOwn(models, alias)) issues.push({ path, message: 'a model has this name' });
    if (!Object.hasOwn(models, target)) issues.push({ path, message: `there is no model "${target}"` });
  }
  return [...issues, ...checkGuestPlan(Object.hasOwn(plans, guestPlan) ? plans[guestPlan] : undefined)];
}

/** Checks that guests reach only guest-tier models, under a daily cap. */
function checkGuestPlan(guest: RawPlanFile['plans'][string] | undefined): ValidationIssue[] {
  const path = `plans.${guestPlan}`;
  if (guest === undefined) return [{ path, message: 'this plan is required: guest keys are minted under it' }];
  const issues: ValidationIssue[] = [];
  if (guest.requests_per_day === undefined) issues.push({ path: `${path}.requests_per_day`, message: 'is required' });
  if (guest.model_tiers.some((tier) => tier !== guestTier)) {
    issues.push({ path: `${path}.model_tiers`, message: `"${guestTier}" is the only tier a guest can have` });
  }
  return issues;
}

type CamelName<Name> = Name extends `${infer Head}_${infer Tail}` ? `${Head}${Capitalize<CamelName<Tail>>}` : Name;
type Camel<T> = T extends readonly (infer Item)[]
  ? readonly Camel<Item>[]
  : T extends object
    ? { readonly [Key in keyof T as CamelName<Key>]: Camel<T[Key]> }
    : T;

const namedSections = new Set(['plans', 'models', 'aliases', 'backends']);

/** Returns objects without a prototype, so that looking up a model named `constructor` finds nothing. */
function camelCase<T>(value: T, keysAreNames = false): Camel<T> {
  if (Array.isArray(value)) return Object.freeze(value.map((item) => camelCase(item))) as Camel<T>;
  if (typeof value !== 'object' || value === null) return value as Camel<T>;
  const copy = Object.create(null);
  for (const [key, item] of Object.entries(value)) {
    const camelKey = keysAreNames ? key : key.replace(/_([a-z])/g, (_match, letter: string) => letter.toUpperCase());
    copy[camelKey] = camelCase(item, namedSections.has(key) && !keysAreNames);
  }
  return Object.freeze(copy);
}
