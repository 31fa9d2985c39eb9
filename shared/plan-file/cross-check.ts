import { z } from 'zod';
import { generatingNames } from '../endpoints/endpoints.ts';
import type { PathIssue } from '../errors.ts';
import { guestPlan } from './plan-file-schema.ts';

const guestTier = 'guest';

const named = <Value extends z.ZodType>(value: Value) =>
  z.record(z.string(), value.optional().catch(undefined)).optional().catch(undefined);
const items = z.array(z.unknown()).optional().catch(undefined);

/** Only what the checks need. A part of another shape is left out: its shape is reported elsewhere. */
const readable = z.object({
  default_plan: z.string().optional().catch(undefined),
  plans: named(
    z.object({
      model_tiers: items,
      requests_per_day: z.unknown().optional(),
      tokens_per_month: z.unknown().optional(),
      overage_tokens_per_month: z.unknown().optional(),
    }),
  ),
  models: named(z.object({ backends: items, endpoints: items, output_tokens_max: z.unknown().optional() })),
  aliases: named(z.string()),
  backends: named(
    z.object({
      url: z.string().optional().catch(undefined),
      api_key_env: z.unknown().optional(),
      api_key_file: z.unknown().optional(),
      api_key_header: z.unknown().optional(),
      ca_file: z.unknown().optional(),
      client_cert_file: z.unknown().optional(),
      client_key_file: z.unknown().optional(),
    }),
  ),
  prices: named(z.unknown()),
});

type Sections = z.infer<typeof readable>;

/** Checks what the sections of a plan file say of each other, also if parts of it have a wrong shape. */
export function crossCheck(value: unknown): PathIssue[] {
  const { success, data } = readable.safeParse(value);
  if (!success) return [];
  const checks = [checkDefaultPlan, checkModels, checkAliases, checkGuestPlan, checkOverage, checkBackends];
  return checks.flatMap((check) => check(data));
}

/** False if the section is not readable: then it is not known what it has. */
function lacks(section: object | undefined, name: string): boolean {
  return section !== undefined && !Object.hasOwn(section, name);
}

function checkDefaultPlan({ plans, default_plan: name }: Sections): PathIssue[] {
  if (name === undefined || !lacks(plans, name)) return [];
  return [{ path: ['default_plan'], message: `there is no plan "${name}"` }];
}

/** Without a quota there is no overage. */
function checkOverage({ plans = {} }: Sections): PathIssue[] {
  return Object.entries(plans).flatMap(([plan, limits]) => {
    if (limits?.overage_tokens_per_month === undefined || limits.tokens_per_month !== undefined) return [];
    return [{ path: ['plans', plan, 'overage_tokens_per_month'], message: 'is only allowed with tokens_per_month' }];
  });
}

function checkModels({ models = {}, backends }: Sections): PathIssue[] {
  return Object.entries(models).flatMap(([model, settings]) => {
    if (settings === undefined) return [];
    const { backends: names = [], endpoints = ['chat'], output_tokens_max: limit } = settings;
    const generating = generatingNames.find((endpoint) => endpoints.includes(endpoint));
    const missing = names.flatMap((name, index) => {
      if (typeof name !== 'string' || !lacks(backends, name)) return [];
      return [{ path: ['models', model, 'backends', index], message: `there is no backend "${name}"` }];
    });
    if (generating === undefined || limit !== undefined) return missing;
    return [{ path: ['models', model, 'output_tokens_max'], message: `is required for ${generating}` }, ...missing];
  });
}

/** Which settings of the key and of TLS need each other, and which exclude each other. */
function checkBackends({ backends = {} }: Sections): PathIssue[] {
  return Object.entries(backends).flatMap(([name, settings = {}]) => {
    const has = (field: keyof typeof settings) => settings[field] !== undefined;
    const issue = (field: keyof typeof settings, message: string) => [{ path: ['backends', name, field], message }];
    const isPlain = settings.url?.startsWith('http:') === true;
    const ofTls = (['ca_file', 'client_cert_file', 'client_key_file'] as const).filter(has);
    const hasKey = has('api_key_env') || has('api_key_file');
    return [
      ...(has('api_key_env') && has('api_key_file') ? issue('api_key_file', 'is not allowed with api_key_env') : []),
      ...(has('api_key_header') && !hasKey ? issue('api_key_header', 'needs api_key_env or api_key_file') : []),
      ...(has('client_cert_file') && !has('client_key_file') ? issue('client_cert_file', 'needs client_key_file') : []),
      ...(has('client_key_file') && !has('client_cert_file') ? issue('client_key_file', 'needs client_cert_file') : []),
      ...(isPlain ? ofTls.flatMap((field) => issue(field, 'needs an address that begins with https')) : []),
    ];
  });
}

function checkAliases({ models = {}, aliases = {}, prices = {} }: Sections): PathIssue[] {
  return Object.entries(aliases).flatMap(([alias, target]) => {
    const path = ['aliases', alias];
    return [
      ...(Object.hasOwn(models, alias) ? [{ path, message: 'a model has this name' }] : []),
      ...(target !== undefined && lacks(models, target) ? [{ path, message: `there is no model "${target}"` }] : []),
      ...(Object.hasOwn(prices, alias)
        ? [{ path: ['prices', alias], message: 'an alias has no prices, its model has' }]
        : []),
    ];
  });
}

/** Checks that guests reach only guest-tier models, under a daily cap. */
function checkGuestPlan({ plans }: Sections): PathIssue[] {
  const path = ['plans', guestPlan];
  if (lacks(plans, guestPlan)) {
    return [{ path, message: 'this plan is required: guest keys are minted under it' }];
  }
  const guest = plans?.[guestPlan];
  if (guest === undefined) return [];
  const issues: PathIssue[] = [];
  if (guest.requests_per_day === undefined)
    issues.push({ path: [...path, 'requests_per_day'], message: 'is required' });
  if (guest.model_tiers?.some((tier) => typeof tier === 'string' && tier !== guestTier)) {
    issues.push({ path: [...path, 'model_tiers'], message: `"${guestTier}" is the only tier a guest can have` });
  }
  return issues;
}
