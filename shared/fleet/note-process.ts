import { z } from 'zod';
import type { Redis } from '../redis/connections.ts';
import { fleetKey, fleetLoadKey } from '../redis/coordination-keys.ts';
import { loadLua, loadScript } from '../redis/load-lua.ts';
import { storedJson } from '../stored-values.ts';
import { type ProcessLoad, processLoadSchema } from './process-load.ts';

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
    keys: 'fleetKey fleetLoadKey',
    args: 'process description? load?',
    constants: { lifeMs: processLifeMs },
  });
  const run = loadScript(redis, script);
  const keys = { fleetKey, fleetLoadKey };
  return {
    async note(process: ProcessNote, load: ProcessLoad): Promise<FleetProcess[]> {
      const texts = { description: JSON.stringify(process), load: JSON.stringify(load) };
      const found = z.array(z.string()).parse(await run({ ...keys, process: process.id, ...texts }));
      return found.flatMap(readProcess);
    },
    async leave(id: string): Promise<void> {
      await run({ ...keys, process: id });
    },
    /** A process of another release may have none, or describe it in another way: it is left out. */
    async loads(): Promise<ReadonlyMap<string, ProcessLoad>> {
      const found = await redis.hgetall(fleetLoadKey);
      return new Map(
        Object.entries(found).flatMap(([id, text]) => {
          const { success, data } = storedJson.pipe(processLoadSchema).safeParse(text);
          return success ? [[id, data] as const] : [];
        }),
      );
    },
  };
}

/** A later release may describe its processes in another way: those are left out. */
function readProcess(text: string): FleetProcess[] {
  const { success, data } = storedJson.pipe(processSchema).safeParse(text);
  return success ? [data] : [];
}
