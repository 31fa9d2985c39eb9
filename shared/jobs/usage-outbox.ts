import { z } from 'zod';
import { partitionCount } from '../redis/keys.ts';
import { type UsageRecord, usageAttemptSchema, usageRecordSchema } from '../store/usage/usage-record.ts';
import type { Refusals } from '../store/usage/usage-tables.ts';
import { wholeNumber } from './replies.ts';

/**
 * The usage of a request as reported by the process that ends it. The script that settles the request adds the rest of the usage record.
 * `endedRuns` are the runs that reported their end: every other run of the request belonged to a worker that died.
 */
const usageReportSchema = usageRecordSchema
  .omit({ requestId: true, account: true, month: true, admittedAt: true, settledAt: true })
  .omit({ runs: true, chargedTokens: true, overage: true, entry: true })
  .extend({ attempts: z.array(usageAttemptSchema), endedRuns: z.array(z.int().positive()) });

export type UsageReport = z.infer<typeof usageReportSchema>;

/** The fields of an outbox entry, as shared/limits/settle.lua and workers/requests/end-leases.lua append them. */
const entrySchema = z.object({
  request: z.string(),
  account: z.string(),
  month: z.string(),
  chargedTokens: wholeNumber,
  overage: z.enum(['0', '1']),
  runs: wholeNumber,
  admittedAt: wholeNumber,
  settledAt: wholeNumber,
  report: z.string().transform((text) => usageReportSchema.parse(JSON.parse(text))),
});

/** Returns the fields of an entry by name; Redis returns a list of names and values. */
export function fieldsOf(entry: readonly string[]): Record<string, string> {
  const names = entry.filter((_, index) => index % 2 === 0);
  return Object.fromEntries(names.map((name, index) => [name, entry[2 * index + 1] ?? '']));
}

/** Returns the usage record of an outbox entry. Throws if this program did not write the entry. */
export function parseOutboxEntry(streamId: string, fields: Readonly<Record<string, string>>): UsageRecord {
  const { request, overage, runs, admittedAt, settledAt, report, ...rest } = entrySchema.parse(fields);
  const { endedRuns, attempts, ...reported } = report;
  const all = Array.from({ length: runs }, (_, index) => index + 1);
  const lost = all.filter((run) => !endedRuns.includes(run)).map((run) => ({ run, outcome: 'lost' }));
  return {
    ...rest,
    ...reported,
    requestId: request,
    attempts: [...attempts, ...lost].sort((one, other) => one.run - other.run),
    overage: overage === '1',
    runs,
    admittedAt: new Date(admittedAt),
    settledAt: new Date(settledAt),
    entry: entryOf(streamId),
  };
}

/** Refusals as an ingress has counted them, by account, hour, key and code (contract.md#r13-hours). */
const refusalsSchema = z.array(
  z.object({
    account: z.string(),
    start: z.string(),
    keyId: z.string(),
    code: z.string(),
    requests: z.int().positive(),
  }),
);

/** The fields of an outbox entry with refusals. Unlike a usage event it has no `account`, which scripts look for. */
export function refusalFields(refusals: readonly Omit<Refusals, 'entry'>[]): { refusals: string } {
  return { refusals: JSON.stringify(refusals) };
}

/** Returns the refusals of an outbox entry; undefined if it is a usage event. Throws if this program did not write the entry. */
export function parseRefusals(
  streamId: string,
  { refusals: text }: Readonly<Record<string, string>>,
): Refusals[] | undefined {
  if (text === undefined) return undefined;
  return refusalsSchema.parse(JSON.parse(text)).map((refusals) => ({ ...refusals, entry: entryOf(streamId) }));
}

/** Pads a stream id (`<milliseconds>-<sequence>`), so that two padded ids compare as text in the order of the ids. */
export function entryOf(streamId: string): string {
  const [milliseconds = '', sequence = '0'] = streamId.split('-');
  return `${milliseconds.padStart(15, '0')}-${sequence.padStart(10, '0')}`;
}

/** Returns the stream id of such an entry. */
export function streamIdOf(entry: string): string {
  return entry
    .split('-')
    .map((part) => part.replace(/^0+(?=\d)/, ''))
    .join('-');
}

/** Returns whether the first of two stream ids is the later one. */
export function isLaterEntry(one: string, other: string): boolean {
  return entryOf(one) > entryOf(other);
}

type LostRequest = Pick<UsageReport, 'keyId' | 'plan' | 'model' | 'requestedModel' | 'tier' | 'endpoint' | 'batch'>;

/** Returns the usage report that is recorded if no process is left to end the request. */
export function lostReport({ keyId, plan, model, requestedModel, tier, endpoint, batch }: LostRequest): UsageReport {
  return {
    keyId,
    plan,
    model,
    ...(requestedModel !== undefined && { requestedModel }),
    tier,
    endpoint,
    batch,
    promptTokens: 0,
    completionTokens: 0,
    cachedTokens: 0,
    counted: 'estimated',
    outcome: 'lost',
    queueWaitMs: null,
    firstTokenMs: null,
    durationMs: null,
    attempts: [],
    endedRuns: [],
  };
}

/** A usage event usually takes 700 bytes, and more after many attempts. */
const entryBytes = 1_024;
const entriesMax = 100_000;

/**
 * Returns how many usage events may wait in each partition's outbox (contract.md#n10-outbox). All of them together take a quarter of
 * Redis's memory, because a Redis without free memory refuses everything. `set` is the operator's own bound, which is used unchanged.
 */
export function outboxLengthFor(set: number | undefined, memoryBytes: number): number {
  if (set !== undefined) return set;
  if (memoryBytes === 0) return entriesMax;
  return Math.max(1, Math.min(entriesMax, Math.floor(memoryBytes / 4 / partitionCount / entryBytes)));
}
