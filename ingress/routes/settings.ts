import { z } from 'zod';
import type { FleetProcess } from '../../shared/fleet/note-process.ts';
import { presentPlanFile } from '../api/present-plan-file.ts';
import { named, type Route, route } from '../api/route.ts';

const generation = z.string().meta({ description: 'The first 12 hexadecimal digits of the SHA-256 of the plan file.' });

const serviceProcess = z.strictObject({
  id: z.string(),
  kind: z.enum(['ingress', 'worker']),
  generation,
  pools: z.array(z.string()).meta({ description: 'The pools that a worker serves.' }),
  issues: z.int().meta({ description: 'Issues of the plan file that it has read last and does not use.' }),
  started_at: z.iso.datetime(),
});

const serviceSettingsSchema = named(
  'ServiceSettings',
  z.strictObject({
    object: z.literal('settings'),
    generation,
    next: z
      .strictObject({ generation, waits_for: z.array(z.string()) })
      .nullable()
      .meta({ description: 'A later plan file, and the pools that have no worker with it yet.' }),
    issues: z.array(z.string()).meta({ description: 'Why the plan file that was read last is not used.' }),
    plan_file: z.record(z.string(), z.unknown()).meta({ description: 'The plan file in force, with all defaults.' }),
    processes: z.array(serviceProcess),
  }),
);

export type ServiceSettings = z.infer<typeof serviceSettingsSchema>;

const exampleGeneration = '3f0c1c7c9a52';

const exampleSettings = {
  object: 'settings',
  generation: exampleGeneration,
  next: null,
  issues: [],
  plan_file: {
    default_plan: 'free',
    models: { 'small-chat': { tier: 'guest', pool: 'default', backends: ['onprem-a'] } },
  },
  processes: [
    {
      id: '01KJMMA2KV0000015QP5D3J9J9',
      kind: 'worker',
      generation: exampleGeneration,
      pools: ['default'],
      issues: 0,
      started_at: '2026-03-01T09:00:00.000Z',
    },
  ],
};

export const settingsRoutes: readonly Route[] = [
  /** The plan file in force, and which process works with which. */
  route({
    id: 'retrieveSettings',
    method: 'GET',
    path: '/admin/settings',
    access: 'operator',
    tag: 'Operators',
    summary: 'Retrieve the plan file in force and the processes',
    description: 'Passwords in addresses of backends are replaced by asterisks.',
    answers: {
      description: 'The plan file of this ingress, and each live process with the plan file that it works with.',
      schema: serviceSettingsSchema,
      example: exampleSettings,
    },
    async handle({ planFile }, { operators: { planFileStatus, processes } }) {
      const { generation, next, issues } = planFileStatus();
      return {
        object: 'settings' as const,
        generation,
        next: next === undefined ? null : { generation: next.generation, waits_for: [...next.waitsFor] },
        issues: [...issues],
        plan_file: { ...presentPlanFile(planFile) },
        processes: processes().toSorted(byKindAndStart).map(present),
      };
    },
  }),
];

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
