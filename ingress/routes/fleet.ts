import { z } from 'zod';
import type { BackendPause } from '../../shared/fleet/backend-pauses.ts';
import type { FleetProcess, IngressLoad, ProcessLoad, WorkerLoad } from '../../shared/fleet/note-process.ts';
import type { PlanFile } from '../../shared/plan-file/plan-file.ts';
import { redisUnavailable } from '../../shared/redis/connections.ts';
import type { Store } from '../../shared/store/records/store.ts';
import { count } from '../api/response-fields.ts';
import { named, type Route, route } from '../api/route.ts';

const ms = z.number().nonnegative();

const known = { id: z.string(), generation: z.string(), started_at: z.iso.datetime() };

const model = z.strictObject({
  model: z.string(),
  queued: z.strictObject({ interactive: count, batch: count }),
  queue_max: count.meta({
    description: 'Further requests are refused with 503 while so many wait; lines of batches are not limited.',
  }),
  oldest_ms: ms.meta({ description: 'How long the oldest request has waited for a worker; 0 if none waits.' }),
});

const callFailure = z.strictObject({
  at: z.iso.datetime(),
  request: z.string().meta({ description: 'The id of the request.' }),
  outcome: z.string(),
  cause: z.string().nullable().meta({ description: 'Such as `connection refused` or `HTTP 401`.' }),
  status: z.int().nullable(),
  rule: z.string().nullable().meta({ description: 'The rule that recognised what it said.' }),
  address: z.string().nullable().meta({ description: 'The host and port that was called.' }),
});

const modelHealth = z.strictObject({
  model: z.string(),
  breakers: z
    .strictObject({ closed: count, 'half-open': count, open: count })
    .meta({ description: 'Workers, by the state of their breaker.' }),
  first_token_ms: ms.nullable().meta({ description: 'Recent, the mean of all workers; null if none has called it.' }),
  answered: count.meta({ description: 'Calls of about the last minute that were answered.' }),
  failed: count.meta({ description: 'Calls of about the last minute that failed.' }),
  prompt_tokens: count.meta({ description: 'Tokens of the prompts of these calls, as the backend has reported them.' }),
  cached_tokens: count.meta({ description: 'Those of them that it has read from its prefix cache.' }),
  failing_since: z.iso
    .datetime()
    .nullable()
    .meta({ description: 'When the first worker has paused it after failures; null if none has.' }),
  last_failure: callFailure.nullable().meta({ description: 'Within the last hour.' }),
  suspects: count.meta({
    description: 'Accounts that have failed there without proof against the backend, of all workers: they ask it last.',
  }),
});

/** Null if no operator has paused the backend. */
export const operatorPause = z
  .strictObject({
    since: z.iso.datetime(),
    ends_at: z.iso.datetime(),
    by: z.string().meta({ description: 'The account of the operator.' }),
    by_name: z.string().optional().meta({ description: 'The display name of that account.' }),
    reason: z.string().nullable(),
  })
  .nullable();

const pause = z.strictObject({
  kind: z.enum(['busy', 'loading', 'account']).meta({
    description:
      'It is busy, loads its model, or refuses the account of the operator there, or the worker does not have its API key.',
  }),
  workers: count.meta({ description: 'The workers that keep this pause.' }),
  left_ms: ms.meta({ description: 'The longest that is left.' }),
});

const fleetSchema = named(
  'Fleet',
  z.strictObject({
    object: z.literal('fleet'),
    ingresses: z.array(
      z.strictObject({
        ...known,
        connections: count.nullable(),
        waiting: count.nullable().meta({ description: 'Requests that wait for their reply.' }),
      }),
    ),
    workers: z.array(
      z.strictObject({
        ...known,
        pools: z.array(z.string()),
        running: count.nullable().meta({ description: 'Jobs in progress.' }),
        waiting: count.nullable().meta({ description: 'Jobs in progress that wait for another backend.' }),
      }),
    ),
    pools: z.array(z.strictObject({ pool: z.string(), workers: count, models: z.array(model) })),
    backends: z.array(
      z.strictObject({
        backend: z.string(),
        location: z.enum(['on-prem', 'cloud']),
        weight: count.meta({ description: 'Its part of the requests, relative to the others; 0: none.' }),
        calls: count.meta({ description: 'In flight, of all workers.' }),
        limit: count.nullable().meta({ description: '`requests_at_once`; null if there is none.' }),
        per_worker: z.boolean().meta({ description: 'Whether the limit applies to each worker.' }),
        shares: count.nullable().meta({
          description:
            'The sum of the shares of all workers: of its limit, or of what it has shown to have room for. Null if there is neither.',
        }),
        paused: operatorPause.meta({ description: 'By an operator; null if none has paused it.' }),
        pauses: z.array(pause).meta({ description: 'Why workers do not call it for a while, besides `paused`.' }),
        models: z.array(modelHealth),
      }),
    ),
  }),
);

export type FleetView = z.infer<typeof fleetSchema>;

const generation = '3f0c1c7c9a52';

const started = { generation, started_at: '2026-03-01T09:00:00.000Z' };

const exampleFleet = {
  object: 'fleet',
  ingresses: [{ id: '01KJMMA2KV0000015QP5D3J9J8', ...started, connections: 12, waiting: 3 }],
  workers: [{ id: '01KJMMA2KV0000015QP5D3J9J9', ...started, pools: ['default'], running: 3, waiting: 0 }],
  pools: [
    {
      pool: 'default',
      workers: 1,
      models: [{ model: 'small-chat', queued: { interactive: 2, batch: 140 }, queue_max: 2000, oldest_ms: 310 }],
    },
  ],
  backends: [
    {
      backend: 'onprem-a',
      location: 'on-prem',
      weight: 1,
      calls: 3,
      limit: 8,
      per_worker: false,
      shares: 8,
      paused: null,
      pauses: [{ kind: 'busy', workers: 1, left_ms: 250 }],
      models: [
        {
          model: 'small-chat',
          breakers: { closed: 1, 'half-open': 0, open: 0 },
          first_token_ms: 180,
          failing_since: null,
          last_failure: null,
          answered: 42,
          failed: 1,
          prompt_tokens: 61200,
          cached_tokens: 49800,
          suspects: 0,
        },
      ],
    },
  ],
} as const;

export const fleetRoutes: readonly Route[] = [
  /**
   * All processes, pools and backends as they are now, from what the processes note every two seconds. The load of a
   * process of another release is null if it cannot be read.
   */
  route({
    id: 'retrieveFleet',
    method: 'GET',
    path: '/admin/fleet',
    access: 'operator',
    tag: 'Operators',
    summary: 'Retrieve what all processes do now',
    description:
      'Processes, the queues of their pools, and the backends as the workers see them. Every process notes what it does every two seconds. The numbers of a process that has not noted any are null.',
    answers: { description: 'Ingresses, workers, pools and backends.', schema: fleetSchema, example: exampleFleet },
    async handle({ planFile }, { store, operators: { fleet, queueDepthMax, backendPauses } }) {
      const { backends, models } = planFile;
      const paused = backendPauses.read(Object.keys(backends));
      const [loads, depths, poolWorkers, pauses] = await redisUnavailable(
        Promise.all([fleet.loads(), fleet.depths(), fleet.poolWorkers(), paused]),
      );
      const names = await operatorNames(pauses, store);
      const processes = fleet.processes().toSorted((one, other) => one.startedAt - other.startedAt);
      const ofKind = (kind: FleetProcess['kind']) => processes.filter((process) => process.kind === kind);
      const alive = processes.flatMap(({ id }) => {
        const load = loads.get(id);
        return load === undefined ? [] : [[id, load] as const];
      });
      const [workerLoads, ingressLoads] = [loadsOf('worker', alive), loadsOf('ingress', alive)];
      return {
        object: 'fleet' as const,
        ingresses: ofKind('ingress').map((process) => ({
          ...present(process),
          connections: ingressLoads.get(process.id)?.connections ?? null,
          waiting: ingressLoads.get(process.id)?.waiting ?? null,
        })),
        workers: ofKind('worker').map((process) => ({
          ...present(process),
          pools: process.pools,
          running: workerLoads.get(process.id)?.running ?? null,
          waiting: workerLoads.get(process.id)?.waiting ?? null,
        })),
        pools: poolWorkers.map(({ pool, workers }) => ({
          pool,
          workers,
          models: Object.keys(models)
            .filter((name) => models[name]?.pool === pool)
            .map((name) => presentModel(name, { depths, ingressLoads, queueDepthMax })),
        })),
        backends: Object.entries(backends).map(([name, backend]) => ({
          ...presentBackend(name, backend, workerLoads),
          paused: presentPause(pauses.get(name) ?? null, names),
        })),
      };
    },
  }),
];

type LoadOf<Kind> = Extract<ProcessLoad, { kind: Kind }>;

function loadsOf<Kind extends ProcessLoad['kind']>(kind: Kind, loads: readonly (readonly [string, ProcessLoad])[]) {
  const isOfKind = (load: ProcessLoad): load is LoadOf<Kind> => load.kind === kind;
  return new Map(loads.flatMap(([id, load]) => (isOfKind(load) ? [[id, load] as const] : [])));
}

function present({ id, generation, startedAt }: FleetProcess) {
  return { id, generation, started_at: new Date(startedAt).toISOString() };
}

type QueueLoad = {
  depths: readonly { model: string; lane: string; jobs: number }[];
  ingressLoads: ReadonlyMap<string, IngressLoad>;
  queueDepthMax: number;
};

/** Each ingress knows how long its own requests have waited. */
function presentModel(
  name: string,
  { depths, ingressLoads, queueDepthMax }: QueueLoad,
): FleetView['pools'][number]['models'][number] {
  const jobs = (lane: string) => depths.find((depth) => depth.model === name && depth.lane === lane)?.jobs ?? 0;
  const ages = [...ingressLoads.values()].flatMap(({ oldest }) => oldest.filter((each) => each.model === name));
  return {
    model: name,
    queued: { interactive: jobs('interactive'), batch: jobs('batch') },
    queue_max: queueDepthMax,
    oldest_ms: Math.max(0, ...ages.map(({ ageMs }) => ageMs)),
  };
}

type Backend = PlanFile['backends'][string];

function presentBackend(
  name: string,
  { location, weight = 1, requestsAtOnce, perWorker }: Backend,
  loads: ReadonlyMap<string, WorkerLoad>,
): Omit<FleetView['backends'][number], 'paused'> {
  const all = [...loads.values()];
  const uses = all.flatMap(({ backends }) => backends.filter(({ backend }) => backend === name));
  const byModel = Map.groupBy(
    all.flatMap(({ health }) => health.filter(({ backend }) => backend === name)),
    ({ model }) => model,
  );
  const isLimited = (requestsAtOnce !== undefined && !perWorker) || uses.some(({ share }) => share !== undefined);
  return {
    backend: name,
    location,
    weight,
    calls: sum(uses.map(({ calls }) => calls)),
    limit: requestsAtOnce ?? null,
    per_worker: perWorker ?? false,
    shares: isLimited ? sum(uses.map(({ share = 0 }) => share)) : null,
    pauses: presentPauses(all.flatMap(({ pauses }) => pauses.filter(({ backend }) => backend === name))),
    models: [...byModel].map(([model, seen]) => ({ model, ...presentHealth(seen) })),
  };
}

type Names = ReadonlyMap<string, string>;

/** The fleet is shown without names if the store is unavailable. */
async function operatorNames(pauses: ReadonlyMap<string, BackendPause | null>, { accounts }: Pick<Store, 'accounts'>) {
  const operators = [...pauses.values()].flatMap((pause) => pause?.by ?? []);
  const none: Names = new Map();
  return operators.length === 0 ? none : accounts.findNames(operators).catch(() => none);
}

export function presentPause(pause: BackendPause | null, names: Names = new Map()): z.infer<typeof operatorPause> {
  if (pause === null) return null;
  const { since, until, by, reason } = pause;
  const name = names.get(by);
  const times = { since: new Date(since).toISOString(), ends_at: new Date(until).toISOString() };
  return { ...times, by, ...(name !== undefined && { by_name: name }), reason };
}

function presentPauses(kept: WorkerLoad['pauses']): FleetView['backends'][number]['pauses'] {
  return (['busy', 'loading', 'account'] as const).flatMap((kind) => {
    const ofKind = kept.filter((each) => each.kind === kind);
    if (ofKind.length === 0) return [];
    return [{ kind, workers: ofKind.length, left_ms: Math.max(...ofKind.map(({ leftMs }) => leftMs)) }];
  });
}

function presentHealth(seen: WorkerLoad['health']): Omit<FleetView['backends'][number]['models'][number], 'model'> {
  const breakers = { closed: 0, 'half-open': 0, open: 0 };
  for (const { breaker } of seen) breakers[breaker] += 1;
  const times = seen.flatMap(({ firstTokenMs }) => (firstTokenMs === undefined ? [] : [firstTokenMs]));
  return {
    breakers,
    first_token_ms: times.length === 0 ? null : Math.round(sum(times) / times.length),
    answered: sum(seen.map(({ answered }) => answered)),
    failed: sum(seen.map(({ failed }) => failed)),
    prompt_tokens: sum(seen.map(({ promptTokens }) => promptTokens)),
    cached_tokens: sum(seen.map(({ cachedTokens }) => cachedTokens)),
    failing_since: firstTimeOf(seen),
    last_failure: lastFailureOf(seen),
    suspects: sum(seen.map(({ suspects }) => suspects)),
  };
}

function firstTimeOf(seen: WorkerLoad['health']): string | null {
  const times = seen.flatMap(({ failingSince }) => failingSince ?? []);
  return times.length === 0 ? null : new Date(Math.min(...times)).toISOString();
}

function lastFailureOf(seen: WorkerLoad['health']): z.infer<typeof callFailure> | null {
  const failures = seen.flatMap(({ lastFailure }) => lastFailure ?? []);
  const [last] = failures.sort((one, other) => other.at - one.at);
  if (last === undefined) return null;
  const { at, requestId, outcome, cause = null, status = null, rule = null, address = null } = last;
  return { at: new Date(at).toISOString(), request: requestId, outcome, cause, status, rule, address };
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
