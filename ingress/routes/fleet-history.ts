import { z } from 'zod';
import { validationError } from '../../shared/errors.ts';
import { type CountStep, countSteps, stepAt } from '../../shared/fleet/fleet-counts.ts';
import { storedJson } from '../../shared/json/stored-values.ts';
import { redisUnavailable } from '../../shared/redis/connections.ts';
import { firstTokenNames, noDetailCounts } from '../../shared/store/usage/usage-record.ts';
import { count } from '../api/response-fields.ts';
import { named, type Route, route } from '../api/route.ts';
import { firstTokensOf } from '../usage/report-rows.ts';

/** Of minutes no more are kept. */
const stepsMax: Readonly<Record<CountStep, number>> = { minutes: 36, hours: 200 };
const usualSteps: Readonly<Record<CountStep, number>> = { minutes: 12, hours: 24 };
const wrongSteps = `expected a whole number from 1 to ${stepsMax.hours}`;

const historyQuery = z.strictObject({
  step: z
    .enum(['minutes', 'hours'])
    .default('minutes')
    .meta({ description: '`minutes`: steps of five minutes, of the last three hours. `hours`: of the last 62 days.' }),
  steps: z
    .string()
    .regex(/^[1-9]\d{0,2}$/, wrongSteps)
    .transform(Number)
    .refine((steps) => steps <= stepsMax.hours, wrongSteps)
    .optional()
    .meta({
      description: 'How many, at most 36 of minutes and 200 of hours; 12 of minutes and 24 of hours by default.',
      documentedAs: z.int().min(1).max(stepsMax.hours).optional(),
    }),
  end: z.iso.datetime().optional().meta({
    description: 'Only steps that begin before this time, UTC. Without it, the present step is the last one.',
  }),
});

const firstToken = z
  .strictObject({ p50: count, p95: count })
  .nullable()
  .meta({ description: 'Percentiles of the time from the call to the first token; null: none had one.' });

const counted = {
  requests: count.meta({ description: 'Requests of inference routes that have ended.' }),
  errors: z.record(z.string(), count).meta({ description: 'Those with an error, by its code.' }),
  longest_wait_ms: count.meta({ description: 'The longest that a request has waited for a worker.' }),
  first_token_ms: firstToken,
  backends: z.array(
    z.strictObject({
      backend: z.string(),
      model: z.string(),
      answered: count.meta({ description: 'Calls that were answered.' }),
      failed: count.meta({ description: 'Calls that gave no answer.' }),
      first_token_ms: firstToken,
    }),
  ),
};

const fleetHistorySchema = named(
  'FleetHistory',
  z.strictObject({
    object: z.literal('fleet.history'),
    step_seconds: count,
    total: z.strictObject(counted).meta({ description: 'Of all steps together.' }),
    data: z.array(z.strictObject({ start: z.iso.datetime(), ...counted })),
  }),
);

export type FleetHistory = z.infer<typeof fleetHistorySchema>;

const exampleCounts = {
  requests: 120,
  errors: { rate_limit_exceeded: 3 },
  longest_wait_ms: 40,
  first_token_ms: { p50: 180, p95: 410 },
  backends: [
    { backend: 'onprem-a', model: 'small-chat', answered: 117, failed: 0, first_token_ms: { p50: 180, p95: 410 } },
  ],
};

const exampleHistory = {
  object: 'fleet.history' as const,
  step_seconds: 300,
  total: exampleCounts,
  data: [{ start: '2026-03-01T14:00:00.000Z', ...exampleCounts }],
};

export const fleetHistoryRoutes: readonly Route[] = [
  /** What the processes have counted in steps of time (contract.md#r13-hours). */
  route({
    id: 'retrieveFleetHistory',
    method: 'GET',
    path: '/admin/fleet/history',
    access: 'operator',
    tag: 'Operators',
    summary: 'Retrieve what the fleet has done lately',
    description:
      'Requests, errors, waits, and the calls of each backend by model, in steps of time. Every process adds its counts every two seconds, each at most once: what a process that dies has not added yet is missing.',
    query: historyQuery,
    answers: { description: 'The steps, oldest first.', schema: fleetHistorySchema, example: exampleHistory },
    async handle({ now, query: { step, steps = usualSteps[step], end } }, { operators: { fleet } }) {
      const { stepMs } = countSteps[step];
      if (steps > stepsMax[step])
        throw validationError([{ path: 'steps', message: `expected at most ${stepsMax[step]} of ${step}` }]);
      // A step has begun before `end` if the last millisecond before `end` is in it or after it.
      const last = stepAt(end === undefined ? now : Math.min(now, Date.parse(end) - 1), step);
      const starts = Array.from({ length: steps }, (_, index) => last - (steps - 1 - index) * stepMs);
      const counts = await redisUnavailable(fleet.readCounts(step, starts));
      return {
        object: 'fleet.history' as const,
        step_seconds: stepMs / 1_000,
        total: presentCounts(counts),
        data: starts.map((start, index) => ({
          start: new Date(start).toISOString(),
          ...presentCounts([counts[index] ?? new Map()]),
        })),
      };
    },
  }),
];

const countName = storedJson.pipe(
  z.union([
    z.tuple([z.literal('call'), z.string(), z.string(), z.union([z.enum(['answered', 'failed']), z.int()])]),
    z.tuple([z.literal('request'), z.string()]),
    z.tuple([z.literal('longest'), z.literal('wait')]),
  ]),
);

/** Requests that ended with this are no errors. */
const noErrors: ReadonlySet<string> = new Set(['completed', 'repeated', 'disconnected']);

/** What was counted in these steps together. Counts of another release may have other names: they are left out. */
function presentCounts(steps: readonly ReadonlyMap<string, number>[]): FleetHistory['total'] {
  const errors: Record<string, number> = {};
  const calls = new Map<string, BackendCalls>();
  let [requests, longestWaitMs] = [0, 0];
  for (const [text, value] of steps.flatMap((counts) => [...counts])) {
    const { data: name } = countName.safeParse(text);
    if (name === undefined) continue;
    if (name[0] === 'longest') longestWaitMs = Math.max(longestWaitMs, value);
    else if (name[0] === 'request') {
      requests += value;
      if (!noErrors.has(name[1])) errors[name[1]] = (errors[name[1]] ?? 0) + value;
    } else {
      const [, backend, model, what] = name;
      const id = JSON.stringify([backend, model]);
      const found = calls.get(id) ?? { backend, model, answered: 0, failed: 0, firstTokens: [] };
      calls.set(id, found);
      if (typeof what === 'string') found[what] += value;
      else found.firstTokens[what] = (found.firstTokens[what] ?? 0) + value;
    }
  }
  const all = [...calls.values()];
  return {
    requests,
    errors,
    longest_wait_ms: longestWaitMs,
    first_token_ms: percentilesOf(all),
    backends: all.map(({ firstTokens, ...each }) => ({ ...each, first_token_ms: percentilesOf([{ firstTokens }]) })),
  };
}

type BackendCalls = { backend: string; model: string; answered: number; failed: number; firstTokens: number[] };

function percentilesOf(calls: readonly Pick<BackendCalls, 'firstTokens'>[]): FleetHistory['total']['first_token_ms'] {
  const sums = firstTokenNames.map((name, index) => {
    const counted = calls.reduce((sum, { firstTokens }) => sum + (firstTokens[index] ?? 0), 0);
    return [name, counted] as const;
  });
  return firstTokensOf({ ...noDetailCounts, ...Object.fromEntries(sums) });
}
