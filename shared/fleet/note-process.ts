import { z } from 'zod';
import { loadScript, type Redis } from '../redis/connections.ts';
import { fleetKey } from '../redis/keys.ts';
import { loadLua } from '../redis/load-lua.ts';

/**
 * A process of the fleet as it describes itself. `pools`: those that a worker serves. `waitsFor`: why an ingress has not switched to a later
 * plan file yet. `issues`: how many issues the plan file that it has read last has.
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

/** `note` notes a process and returns all that are alive, `leave` removes one. Both are one call, and fail as the connection does. */
export function createNoteProcess(redis: Redis) {
  const lua = loadLua(new URL('./note-process.lua', import.meta.url), { lifeMs: processLifeMs });
  const run = loadScript(redis, { name: 'svcNoteProcess', lua, numberOfKeys: 1 });
  return {
    async note(process: ProcessNote): Promise<FleetProcess[]> {
      const found = z.array(z.string()).parse(await run([fleetKey], [process.id, JSON.stringify(process)]));
      return found.flatMap(readProcess);
    },
    async leave(id: string): Promise<void> {
      await run([fleetKey], [id, '']);
    },
  };
}

/** A later release may describe its processes in another way: those are left out. */
function readProcess(text: string): FleetProcess[] {
  const { success, data } = processSchema.safeParse(JSON.parse(text));
  return success ? [data] : [];
}
