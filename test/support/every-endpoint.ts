import type { StackModel } from '../stack/plan.ts';

/** Models that offer every endpoint, by any of the stack's backends. */
export const everyEndpoint: Record<string, StackModel> = {
  everything: {
    tier: 'guest',
    pool: 'default',
    endpoints: ['chat', 'completions', 'embeddings', 'responses', 'messages'],
  },
};
