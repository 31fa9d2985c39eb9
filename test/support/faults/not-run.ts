import type { Fault } from './fault-test.ts';

/** What the list asks for and no test can show with the servers that tests start; told beside all others, for nobody is to take it for shown. */
export const notRun: readonly (Fault & { reason: string })[] = [
  {
    id: '14f',
    done: "the store's replica set elects another primary, or loses its majority",
    promised: 'no request fails that needs no store; usage waits in Redis and is counted once',
    reason: 'an election needs a replica set of several MongoDB servers, and tests start one at most',
  },
];
