import { z } from 'zod';
import type { FleetProcess } from '../../../shared/fleet/note-process.ts';
import type { PlanFileStatus } from '../../../shared/plan-file/live/plan-file-status.ts';
import { presentPlanFile } from '../../plan-file/present-plan-file.ts';
import { type AppContext, type Stage, stateOf } from '../../request-state.ts';

const generation = z.string().meta({ description: 'The first 12 hexadecimal digits of the SHA-256 of the plan file.' });

const serviceProcess = z.strictObject({
  id: z.string(),
  kind: z.enum(['ingress', 'worker']),
  generation,
  pools: z.array(z.string()).meta({ description: 'The pools that a worker serves.' }),
  issues: z.int().meta({ description: 'Issues of the plan file that it has read last and does not use.' }),
  started_at: z.iso.datetime(),
});

export const serviceSettings = z.strictObject({
  object: z.literal('settings'),
  generation,
  next: z
    .strictObject({ generation, waits_for: z.array(z.string()) })
    .nullable()
    .meta({ description: 'A later plan file, and the pools that have no worker with it yet.' }),
  issues: z.array(z.string()).meta({ description: 'Why the plan file that was read last is not used.' }),
  plan_file: z.record(z.string(), z.unknown()).meta({ description: 'The plan file in force, with all defaults.' }),
  processes: z.array(serviceProcess),
});

export type ServiceSettings = z.infer<typeof serviceSettings>;

export type SettingsDeps = {
  planFileStatus: () => PlanFileStatus;
  /** The processes that are alive. */
  processes: () => readonly FleetProcess[];
};

/** `GET /admin/settings`: the plan file in force, and which process works with which. */
export function retrieveSettings({ planFileStatus, processes }: SettingsDeps): Stage {
  return async function retrieveSettings(ctx: AppContext) {
    const { generation, next, issues } = planFileStatus();
    const body: ServiceSettings = {
      object: 'settings',
      generation,
      next: next === undefined ? null : { generation: next.generation, waits_for: [...next.waitsFor] },
      issues: [...issues],
      plan_file: { ...presentPlanFile(stateOf(ctx, 'planFile')) },
      processes: processes().toSorted(byKindAndStart).map(present),
    };
    ctx.body = body;
  };
}

function byKindAndStart(one: FleetProcess, other: FleetProcess): number {
  return one.kind.localeCompare(other.kind) || one.startedAt - other.startedAt;
}

function present({
  id,
  kind,
  generation,
  pools,
  issues,
  startedAt,
}: FleetProcess): ServiceSettings['processes'][number] {
  return { id, kind, generation, pools, issues, started_at: new Date(startedAt).toISOString() };
}
