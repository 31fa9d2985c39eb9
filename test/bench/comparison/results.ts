import { z } from 'zod';
import { figuresSchema } from '../loads/load.ts';

const byProcess = z.record(z.string(), z.number());

const booksSchema = z.object({ overAdmitted: z.number(), lostUsage: z.number(), duplicates: z.number() });

/**
 * One row under one load, once. CPU is in microseconds for each answered request, by kind of process. `machineCpu` is the share of the
 * complete machine's time that was not idle. `books` exists for this service only.
 */
export const runSchema = figuresSchema.extend({
  row: z.string(),
  load: z.string(),
  round: z.number(),
  cpuMicros: byProcess,
  modelServerCpuMicros: z.number(),
  generatorCpuMicros: z.number(),
  memoryMiB: byProcess,
  machineCpu: z.number(),
  books: booksSchema.optional(),
});
export type Run = z.infer<typeof runSchema>;

/** `missing`: why a row could not be measured. */
const rowSchema = z.object({ name: z.string(), does: z.string(), missing: z.string().optional() });

/** How a gateway behaved in a test of its limits. `checks none` if it has no such limit. */
export const truthSchema = z.object({
  row: z.string(),
  question: z.string(),
  answer: z.string(),
});
export type Truth = z.infer<typeof truthSchema>;

/** Where and when a part was measured: the other parts may be from another day. */
const takenSchema = z.object({
  machine: z.object({ processors: z.number(), model: z.string(), memoryGiB: z.number(), node: z.string() }),
  date: z.iso.date(),
});
export type MeasurementOrigin = z.infer<typeof takenSchema>;
const partSchema = z.enum(['peers', 'truth', 'costs', 'fleet', 'cluster', 'endpoints']);
export type Part = z.infer<typeof partSchema>;

/** Per second: milliseconds of a processor by process, and the number of Redis calls by command. */
const idleSchema = z.object({ cpuMs: byProcess, commands: byProcess });

/** Costs of this service without a comparison to other gateways. */
const costsSchema = z.object({
  /** Without requests: one ingress, and this many workers. */
  idle: z.object({ one: idleSchema, two: idleSchema }),
  /** Of Redis's processor, microseconds a call. */
  scripts: z.object({ admit: z.number(), start: z.number(), settle: z.number() }),
  /** From the end of a worker by SIGKILL until each of its runs has started again, sorted. */
  takeoverMs: z.array(z.number()),
  /** Where the main threads of ingress and worker spend their time under loads of streams. */
  shares: z.array(
    z.object({ load: z.string(), process: z.enum(['ingress', 'worker']), shares: z.record(z.string(), z.number()) }),
  ),
});
export type Costs = z.infer<typeof costsSchema>;

/**
 * The commands that Redis carries out per second for this many workers, and for an additional worker, with this many models, while it is
 * idle.
 */
const fleetSchema = z.object({
  workers: z.array(z.object({ workers: z.number(), idle: z.number(), loaded: z.number(), openBatches: z.number() })),
  models: z.array(z.object({ models: z.number(), commands: z.number(), connections: z.number() })),
});
export type Fleet = z.infer<typeof fleetSchema>;

const warmUpSchema = z.object({ row: z.string(), load: z.string(), books: booksSchema });

/** This service with one Redis and with a cluster, and the test of its limits on a cluster. */
const clusterSchema = z.object({
  rounds: z.number(),
  seconds: z.number(),
  warnings: z.array(z.string()),
  runs: z.array(runSchema),
  warmUps: z.array(warmUpSchema),
  truth: z.array(truthSchema),
});
export type ClusterResults = z.infer<typeof clusterSchema>;

/** This service under the same load at different endpoints, which are the rows. */
const endpointsSchema = clusterSchema.omit({ truth: true });

export const resultsSchema = z.object({
  taken: z.partialRecord(partSchema, takenSchema),
  rounds: z.number(),
  seconds: z.number(),
  /** The share of the machine's time that was not idle while all rows were running without requests. */
  idleCpu: z.number(),
  /** A note on all these figures. */
  warnings: z.array(z.string()),
  rows: z.array(rowSchema),
  runs: z.array(runSchema),
  /** Of the loads before the first round. Their other figures are not kept. */
  warmUps: z.array(warmUpSchema),
  truth: z.array(truthSchema),
  costs: costsSchema.optional(),
  fleet: fleetSchema.optional(),
  cluster: clusterSchema.optional(),
  endpoints: endpointsSchema.optional(),
});
export type Results = z.infer<typeof resultsSchema>;
export type RowState = z.infer<typeof rowSchema>;
