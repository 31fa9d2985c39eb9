import { stringify } from 'yaml';

/** A small valid plan file. Tests change the parts they are about. */
export const smallPlan = {
  default_plan: 'free',
  plans: {
    free: { requests_per_minute: 20, model_tiers: ['guest'] },
    'guest-device': { requests_per_day: 50, model_tiers: ['guest'] },
  },
  models: {
    'small-chat': { tier: 'guest', pool: 'default', backends: ['onprem-a', 'cloud'], output_tokens_max: 4096 },
  },
  backends: {
    'onprem-a': { url: 'http://127.0.0.1:8084/v1', location: 'on-prem' },
    cloud: { url: 'https://api.example.com/v1', location: 'cloud', api_key_env: 'CLOUD_API_KEY' },
  },
};

/** This plan file as text, after `change` was applied to a copy. */
export function planText(change: (plan: typeof smallPlan & Record<string, unknown>) => void = () => {}): string {
  const plan = structuredClone(smallPlan);
  change(plan);
  return stringify(plan);
}
