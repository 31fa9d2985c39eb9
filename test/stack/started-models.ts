import { endpointNames, generatingNames } from '../../shared/endpoints/routes.ts';
import type { StackModel } from './plan.ts';

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
