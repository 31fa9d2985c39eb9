import { stringify } from 'yaml';

/** The settings of a backend that a test may choose. */
export type BackendSettings = {
  /** The address of the test's own backend, instead of a model server of the stack. */
  url?: string;
  location?: 'on-prem' | 'cloud';
  requests_at_once?: number;
  api_key_env?: string;
  api_key_file?: string;
  api_key_header?: string;
  headers?: Record<string, string>;
  query?: Record<string, string>;
  whole_as_stream?: boolean;
  cache_salt?: boolean;
  priority?: boolean;
  weight?: number;
  relay_messages?: boolean;
};
export type StackBackend = BackendSettings & { url: string; location: 'on-prem' | 'cloud'; model?: string };
export type StackModel = {
  tier: string;
  pool: string;
  backends?: readonly string[];
  output_tokens_max?: number;
  extra_fields?: readonly string[];
  extra_tools?: readonly string[];
  unknown_fields?: 'refuse' | 'drop';
  clamp_output_tokens?: boolean;
  affinity?: 'prefix' | 'account' | 'none';
  /** Default: chat only. */
  endpoints?: readonly string[];
};

/** For a million tokens. */
export type StackPrice = { from: string; prompt: number; cached?: number; completion: number };

type Settings = {
  backends: Record<string, StackBackend>;
  timeouts?: Record<string, number>;
  plans?: Record<string, object>;
  models?: Record<string, StackModel>;
  batch?: Record<string, number>;
  mediaHosts?: readonly string[];
  aliases?: Record<string, string>;
  guests?: Record<string, number>;
  prices?: Record<string, readonly StackPrice[]>;
};

const tokens = { output_tokens_max: 4096 };
const threeTiers: Record<string, StackModel> = {
  'small-chat': { tier: 'guest', pool: 'default' },
  'medium-chat': { tier: 'standard', pool: 'default' },
  'large-chat': { tier: 'premium', pool: 'large' },
};

/** Limits of the plans of a stack, without the tiers of their models. */
export const usualPlans = {
  free: {
    requests_per_minute: 600,
    tokens_per_minute: 600_000,
    tokens_per_month: 10_000_000,
    requests_at_once: 64,
    batch_requests_at_once: 8,
    batch_tokens_waiting: 2_000_000,
    priority: 10,
  },
  pro: { priority: 5 },
  'guest-device': {
    requests_per_minute: 5,
    tokens_per_minute: 20_000,
    tokens_per_month: 200_000,
    requests_per_day: 50,
    requests_at_once: 1,
    priority: 100,
  },
};

/** On a busy machine, a stand-in in the process of a test accepts connections late. */
export const patientConnecting = { connect_ms: 20_000 };

/** The guests' model on one backend only, for tests that must know which one is called. */
export const oneBackend: Record<string, StackModel> = {
  'small-chat': { tier: 'guest', pool: 'default', backends: ['onprem-a'] },
};

/**
 * A plan file for the stack: models of three tiers in two pools and the given ones, each served by every backend unless it names its own.
 */
export function planFileFor({
  backends,
  timeouts = {},
  plans = {},
  models = {},
  batch = {},
  mediaHosts = [],
  aliases = {},
  guests = {},
  prices = {},
}: Settings): string {
  const names = Object.keys(backends);
  const planFile = {
    default_plan: 'free',
    ...(mediaHosts.length > 0 && { media_hosts: mediaHosts }),
    ...(Object.keys(aliases).length > 0 && { aliases }),
    ...(Object.keys(prices).length > 0 && { prices }),
    ...guests,
    plans: {
      free: { ...usualPlans.free, model_tiers: ['guest', 'standard'] },
      pro: { ...usualPlans.pro, model_tiers: ['guest', 'standard', 'premium'] },
      'guest-device': { ...usualPlans['guest-device'], model_tiers: ['guest'] },
      ...plans,
    },
    models: {
      ...Object.fromEntries(
        Object.entries({ ...threeTiers, ...models }).map(([name, model]) => [
          name,
          { backends: names, ...tokens, ...model },
        ]),
      ),
    },
    backends,
    batch,
    timeouts,
  };
  return stringify(planFile, { aliasDuplicateObjects: false });
}
