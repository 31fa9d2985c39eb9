import { z } from 'zod';
import { type UsageRecord, usageAttemptSchema, usageRecordSchema } from '../store/usage/usage-record.ts';

/**
 * What whoever ends a request says of it; the rest of its usage record is what only the script that settles it knows.
 * `endedRuns` are the runs that came to an end in words: every other run of the request was that of a worker that died.
 */
const usageReportSchema = usageRecordSchema
  .omit({ requestId: true, account: true, month: true, admittedAt: true, settledAt: true })
  .omit({ runs: true, chargedTokens: true, overage: true, entry: true })
  .extend({ attempts: z.array(usageAttemptSchema), endedRuns: z.array(z.int().positive()) });

export type UsageReport = z.infer<typeof usageReportSchema>;

const wholeNumber = z
  .string()
  .regex(/^\d{1,15}$/)
  .transform(Number);

/** The fields of an outbox entry, as settle.lua and leases.lua append them. */
const entrySchema = z.object({
  request: z.string(),
  account: z.string(),
  month: z.string(),
  tokens: wholeNumber,
  overage: z.enum(['0', '1']),
  runs: wholeNumber,
  admittedAt: wholeNumber,
  settledAt: wholeNumber,
  report: z.string().transform((text) => usageReportSchema.parse(JSON.parse(text))),
});

/** The usage record that an outbox entry stands for. Throws where it is none that this program wrote. */
export function parseOutboxEntry(streamId: string, fields: Readonly<Record<string, string>>): UsageRecord {
  const { request, tokens, overage, runs, admittedAt, settledAt, report, ...rest } = entrySchema.parse(fields);
  const { endedRuns, attempts, ...reported } = report;
  const all = Array.from({ length: runs }, (_, index) => index + 1);
  const lost = all.filter((run) => !endedRuns.includes(run)).map((run) => ({ run, outcome: 'lost' }));
  return {
    ...rest,
    ...reported,
    requestId: request,
    attempts: [...attempts, ...lost].sort((one, other) => one.run - other.run),
    chargedTokens: tokens,
    overage: overage === '1',
    runs,
    admittedAt: new Date(admittedAt),
    settledAt: new Date(settledAt),
    entry: entryOf(streamId),
  };
}

/** A stream id (`<milliseconds>-<sequence>`) padded so that two of them compare as text as they do as ids. */
export function entryOf(streamId: string): string {
  const [milliseconds = '', sequence = '0'] = streamId.split('-');
  return `${milliseconds.padStart(15, '0')}-${sequence.padStart(10, '0')}`;
}

/** The stream id that such an entry was. */
export function streamIdOf(entry: string): string {
  return entry
    .split('-')
    .map((part) => part.replace(/^0+(?=\d)/, ''))
    .join('-');
}

/** Whether the first of two stream ids is the later one. */
export function isLaterEntry(one: string, other: string): boolean {
  return entryOf(one) > entryOf(other);
}
