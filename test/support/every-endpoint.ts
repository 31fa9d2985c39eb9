import { endpointNames } from '../../shared/endpoints/endpoints.ts';
import type { StackModel } from '../stack/plan.ts';

/** A model that offers every endpoint, by any of the stack's backends. */
export const everyEndpoint = {
  everything: {
    tier: 'guest',
    pool: 'default',
    endpoints: endpointNames,
  },
} satisfies Record<string, StackModel>;
