import type { StackModel } from './plan.ts';

const endpoints = ['chat', 'completions', 'responses', 'messages'];

/** The models of `npm start` and of the examples in the documentation: together they offer every endpoint. */
export const startedModels: Record<string, StackModel> = {
  'small-chat': { tier: 'guest', pool: 'default', endpoints },
  'medium-chat': { tier: 'standard', pool: 'default', endpoints },
  'large-chat': { tier: 'premium', pool: 'large', endpoints },
  'small-embed': { tier: 'guest', pool: 'default', endpoints: ['embeddings'] },
};

/** A name that a model had before. */
export const startedAliases: Record<string, string> = { 'old-chat': 'small-chat' };
