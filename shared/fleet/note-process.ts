import { z } from 'zod';
import { storedJson } from '../json/stored-values.ts';
import type { Redis } from '../redis/connections.ts';
import { fleetCountsKey, fleetKey, fleetLoadKey } from '../redis/keys.ts';
import { loadLua, loadScript } from '../redis/load-lua.ts';
import { usageAttemptSchema } from '../store/usage/usage-record.ts';
import { type CountStep, countSteps, stepAt, type TakenCounts } from './fleet-counts.ts';

const count = z.number().nonnegative();

const backendLoadSchema = z.object({
  backend: z.string(),
  calls: count,
  share: count.optional(),
});

const callFailureSchema = usageAttemptSchema
  .pick({ outcome: true, cause: true, address: true, rule: true, status: true })
  .extend({ at: count, requestId: z.string() });

/** A call without an answer: when, of which request, and why, as its usage record has it. */
export type CallFailure = z.infer<typeof callFailureSchema>;

const backendHealthSchema = z.object({
  backend: z.string(),
  model: z.string(),
  breaker: z.enum(['closed', 'half-open', 'open']),
  firstTokenMs: count.optional(),
  answered: count,
  failed: count,
  promptTokens: count,
  cachedTokens: count,
  suspects: count,
  failingSince: count.optional(),
  lastFailure: callFailureSchema.optional(),
});

/** Why a backend is not called for a while, although it may be well. */
export const pauseKinds = ['busy', 'loading', 'account', 'operator'] as const;
export type PauseKind = (typeof pauseKinds)[number];

const backendPauseSchema = z.object({
  backend: z.string(),
  kind: z.enum(pauseKinds),
  leftMs: count,
});

const workerLoadSchema = z.object({
  kind: z.literal('worker'),
  running: count,
  waiting: count,
  backends: z.array(backendLoadSchema),
  health: z.array(backendHealthSchema),
  pauses: z.array(backendPauseSchema),
});

const ingressLoadSchema = z.object({
  kind: z.literal('ingress'),
  connections: count,
  waiting: count,
  oldest: z.array(z.object({ model: z.string(), ageMs: count })),
});

const processLoadSchema = z.discriminatedUnion('kind', [workerLoadSchema, ingressLoadSchema]);

/**
 * What a worker does now. `running`: jobs in progress. `waiting`: those of them that wait for another backend. `backends`: its calls in
 * flight and its share of a limit of the whole fleet. `health`: as this worker has seen it, for each model: `firstTokenMs` is recent,
 * `answered` and `failed` are the calls of about the last minute, `promptTokens` and `cachedTokens` those that it has reported of them, and
 * `suspects` the accounts that ask it last. `failingSince`: when its breaker has left the closed state; `lastFailure`: its latest call
 * without an answer within an hour. `pauses`: why it does not call backends for a while.
 */
export type WorkerLoad = z.infer<typeof workerLoadSchema>;

/**
 * What an ingress does now. `waiting`: requests that wait for their reply. `oldest`: of each model, how long one has waited for a worker.
 */
export type IngressLoad = z.infer<typeof ingressLoadSchema>;

export type ProcessLoad = z.infer<typeof processLoadSchema>;

const storedLoad = storedJson.pipe(processLoadSchema);

/**
 * A process of the fleet as it describes itself. `pools`: those that a worker serves. `waitsFor`: why an ingress has not switched to a
 * later plan file yet. `issues`: how many issues the plan file that it has read last has.
 */
const processSchema = z.object({
  id: z.string(),
  kind: z.enum(['ingress', 'worker']),
  /** Of the plan file in force (contract.md#k2-generations). */
  generation: z.string(),
  pools: z.array(z.string()).default([]),
  next: z.object({ generation: z.string(), waitsFor: z.array(z.string()) }).optional(),
  issues: z.number().default(0),
  startedAt: z.number(),
});

const storedProcess = storedJson.pipe(processSchema);
const notesSchema = z.array(z.string());

export type FleetProcess = z.infer<typeof processSchema>;
export type ProcessNote = z.input<typeof processSchema>;

/** A process that has noted nothing for this long is not listed any more. */
export const processLifeMs = 7_000;

/**
 * `note` notes a process with its load and returns all that are alive, `leave` removes one, `loads` reads what they do, by their ids. Each
 * is one call, and fails as the connection does.
 */
export function createNoteProcess(redis: Redis) {
  const script = loadLua(new URL('./note-process.lua', import.meta.url), {
    keys: 'fleetKey fleetLoadKey minutesKey? hoursKey?',
    args: 'process description? load? sums? highest?',
    constants: {
      lifeMs: processLifeMs,
      minutesKeptMs: countSteps.minutes.keptMs,
      hoursKeptMs: countSteps.hours.keptMs,
    },
  });
  const run = loadScript(redis, script);
  const keys = { fleetKey, fleetLoadKey };
  return {
    /** `counts`: what the process has counted since its last note; each is added at most once. */
    async note(process: ProcessNote, load: ProcessLoad, counts: TakenCounts = noneTaken): Promise<FleetProcess[]> {
      const texts = { description: JSON.stringify(process), load: JSON.stringify(load) };
      const counting = counts.sums.length + counts.highest.length > 0 ? countingOf(counts) : {};
      const found = notesSchema.parse(await run({ ...keys, process: process.id, ...texts, ...counting }));
      return found.flatMap(readProcess);
    },
    async leave(id: string): Promise<void> {
      await run({ ...keys, process: id });
    },
    /** The counts of these steps of time, in their order. A step in which nothing was counted has none. */
    async counts(step: CountStep, starts: readonly number[]): Promise<ReadonlyMap<string, number>[]> {
      const found = await Promise.all(starts.map((start) => redis.hgetall(fleetCountsKey(step, start))));
      return found.map((hash) => new Map(Object.entries(hash).map(([name, value]) => [name, Number(value)])));
    },
    /** A process of another release may have none, or describe it in another way: it is left out. */
    async loads(): Promise<ReadonlyMap<string, ProcessLoad>> {
      const found = await redis.hgetall(fleetLoadKey);
      return new Map(
        Object.entries(found).flatMap(([id, text]) => {
          const { success, data } = storedLoad.safeParse(text);
          return success ? [[id, data] as const] : [];
        }),
      );
    },
  };
}

const noneTaken: TakenCounts = { sums: [], highest: [] };

function countingOf({ sums, highest }: TakenCounts) {
  const now = Date.now();
  return {
    minutesKey: fleetCountsKey('minutes', stepAt(now, 'minutes')),
    hoursKey: fleetCountsKey('hours', stepAt(now, 'hours')),
    sums: JSON.stringify(sums),
    highest: JSON.stringify(highest),
  };
}

/** A later release may describe its processes in another way: those are left out. */
function readProcess(text: string): FleetProcess[] {
  const { success, data } = storedProcess.safeParse(text);
  return success ? [data] : [];
}
