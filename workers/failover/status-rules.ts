import type { Rule } from './rule.ts';

/** What is left is the backend's failure. */
const failed = { outcome: 'failed', evidence: 'request' } as const;

export const statusRules: readonly Rule[] = [
  {
    id: 'server-error',
    engine: 'any',
    ...failed,
    statuses: [500, 502],
    isLoss: true,
    example: { fault: 'status', status: 500, words: 'CUDA error: an illegal memory access was encountered' },
  },
  {
    id: 'other-status',
    engine: 'any',
    ...failed,
    faults: ['status'],
    example: { fault: 'status', status: 504 },
  },
  {
    // An error in a 200 that says nothing that is known.
    id: 'unknown-error',
    engine: 'any',
    ...failed,
    faults: ['said'],
    isLoss: true,
    example: { fault: 'said', words: 'something went wrong' },
  },
];
