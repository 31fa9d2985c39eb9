import type { Rule } from './rule.ts';

/** Calls without a status that says anything, and answers that break off. */
export const connectionRules: readonly Rule[] = [
  {
    id: 'no-connection-in-time',
    engine: 'any',
    outcome: 'failed',
    faults: ['connect_timeout'],
    evidence: 'backend',
    example: { fault: 'connect_timeout', wasSent: false },
  },
  {
    id: 'no-connection',
    engine: 'any',
    outcome: 'failed',
    faults: ['connection'],
    wasSent: false,
    evidence: 'backend',
    example: { fault: 'connection', wasSent: false },
  },
  {
    id: 'closed-before-answer',
    engine: 'any',
    outcome: 'failed',
    faults: ['connection'],
    evidence: 'request',
    isLoss: true,
    example: { fault: 'connection', wasSent: true },
  },
  {
    id: 'silent',
    engine: 'any',
    outcome: 'failed',
    faults: ['first_token_timeout', 'idle_timeout'],
    evidence: 'silence',
    example: { fault: 'first_token_timeout' },
  },
  {
    id: 'unreadable',
    engine: 'any',
    outcome: 'failed',
    faults: ['unreadable'],
    evidence: 'request',
    example: { fault: 'unreadable' },
  },
  {
    // vLLM 0.33 ends its streams like that when it is stopped: `finish_reason: "abort"`, then `[DONE]`.
    id: 'ended-early',
    engine: 'any',
    outcome: 'interrupted',
    faults: ['interrupted'],
    evidence: 'request',
    example: { fault: 'interrupted' },
  },
  {
    id: 'silent-after-text',
    engine: 'any',
    outcome: 'interrupted',
    faults: ['idle_timeout', 'first_token_timeout'],
    afterText: true,
    evidence: 'silence',
    example: { fault: 'idle_timeout', hasText: true },
  },
  {
    id: 'broke-off',
    engine: 'any',
    outcome: 'interrupted',
    faults: ['connection', 'unreadable', 'interrupted', 'said', 'status'],
    afterText: true,
    evidence: 'request',
    example: { fault: 'said', kinds: ['server_error'], hasText: true },
  },
];
