import type { Fault } from './fault-test.ts';

/**
 * Faults that cannot be tested with the servers that tests start. They are reported with all others, so that they are not taken as tested.
 */
export const notRun: readonly (Fault & { reason: string })[] = [
  {
    id: '14f',
    done: "the store's replica set elects another primary, or loses its majority",
    promised: 'requests that do not need the store succeed; usage waits in Redis and is counted once',
    reason: 'an election needs a replica set of several MongoDB servers, and tests start at most one',
  },
];
