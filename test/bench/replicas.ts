import { type Stack, type StackOptions, startStack } from '../stack/stack.ts';

/** How many calls both replicas together can have in progress, for all workers, and how long each call takes. */
export type Capacity = { slots: number; serviceMs: number };

type Options = Capacity & Pick<StackOptions, 'modelServers' | 'env'> & { workers: number };

/** The models that the replicas serve, in one pool. */
export const models = ['replicas', 'same-replicas'] as const;

export function perSecond({ slots, serviceMs }: Capacity): number {
  return (slots * 1_000) / serviceMs;
}

/** Starts the complete service with one ingress in front of two replicas of known capacity. */
export function startReplicas({ slots, serviceMs, workers, modelServers, env = {} }: Options): Promise<Stack> {
  const backend = { requests_at_once: slots / 2 };
  const model = { tier: 'standard', pool: 'default', backends: ['onprem-a', 'onprem-b'] };
  return startStack({
    workers,
    modelServers: { firstTokenMs: serviceMs, splitBytes: false, ...modelServers },
    backends: { 'onprem-a': backend, 'onprem-b': backend },
    models: Object.fromEntries(models.map((name) => [name, model])),
    // Jobs that a worker holds beyond the slots are in admission, or their results are being stored.
    env: { BATCH_CONCURRENCY: String(Math.ceil((1.5 * slots) / workers)), ...env },
  });
}
