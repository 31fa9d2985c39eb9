import { z } from 'zod';

const count = z.number().nonnegative();

const backendLoadSchema = z.object({
  backend: z.string(),
  calls: count,
  share: count.optional(),
});

const backendHealthSchema = z.object({
  backend: z.string(),
  model: z.string(),
  breaker: z.enum(['closed', 'half-open', 'open']),
  firstTokenMs: count.optional(),
  answered: count,
  failed: count,
  suspects: count,
});

/** Why a backend is not called for a while, although it may be well. */
export const pauseKinds = ['busy', 'loading', 'account', 'operator'] as const;
export type PauseKind = (typeof pauseKinds)[number];

const backendPauseSchema = z.object({
  backend: z.string(),
  kind: z.enum(pauseKinds),
  leftMs: count,
});

export const workerLoadSchema = z.object({
  kind: z.literal('worker'),
  running: count,
  waiting: count,
  backends: z.array(backendLoadSchema),
  health: z.array(backendHealthSchema),
  pauses: z.array(backendPauseSchema),
});

export const ingressLoadSchema = z.object({
  kind: z.literal('ingress'),
  connections: count,
  waiting: count,
  oldest: z.array(z.object({ model: z.string(), ageMs: count })),
});

export const processLoadSchema = z.discriminatedUnion('kind', [workerLoadSchema, ingressLoadSchema]);

/**
 * What a worker does now. `running`: jobs in progress. `waiting`: those of them that wait for another backend. `backends`: its calls in
 * flight and its share of a limit of the whole fleet. `health`: as this worker has seen it, for each model: `firstTokenMs` is recent, and
 * `answered` and `failed` are the calls of about the last minute, and `suspects` the accounts that ask it last. `pauses`: why it does not
 * call backends for a while.
 */
export type WorkerLoad = z.infer<typeof workerLoadSchema>;

/**
 * What an ingress does now. `waiting`: requests that wait for their reply. `oldest`: of each model, how long one has waited for a worker.
 */
export type IngressLoad = z.infer<typeof ingressLoadSchema>;

export type ProcessLoad = z.infer<typeof processLoadSchema>;
