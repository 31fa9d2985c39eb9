import { endpointNames, generatingNames } from '../../shared/endpoints/endpoints.ts';
import type { BackendSettings, StackModel, StackPrice } from './plan.ts';

const others = endpointNames.filter((name) => !generatingNames.includes(name));

/** The models of `npm start` and of the examples in the documentation: together they offer every endpoint. */
export const startedModels: Record<string, StackModel> = {
  'small-chat': { tier: 'guest', pool: 'default', endpoints: generatingNames },
  'medium-chat': { tier: 'standard', pool: 'default', endpoints: generatingNames },
  'large-chat': { tier: 'premium', pool: 'large', endpoints: generatingNames },
  'small-embed': { tier: 'guest', pool: 'default', endpoints: others },
};

/** A name that a model had before. */
export const startedAliases: Record<string, string> = { 'old-chat': 'small-chat' };

/** A simulated model server answers as many at once as it is asked. */
const simulated: BackendSettings = { requests_at_once: 64 };
export const startedBackends = { 'onprem-a': simulated, 'onprem-b': simulated, cloud: simulated };

/** Prices of all these models. */
export const startedPrices: Record<string, readonly StackPrice[]> = {
  'small-chat': [{ from: '2026-01-01', prompt: 0.15, cached: 0.075, completion: 0.6 }],
  'medium-chat': [{ from: '2026-01-01', prompt: 0.4, completion: 1.6 }],
  'large-chat': [{ from: '2026-01-01', prompt: 2, cached: 0.5, completion: 8 }],
  'small-embed': [{ from: '2026-01-01', prompt: 0.02, completion: 0 }],
};
