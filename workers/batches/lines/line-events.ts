import type { Redis } from 'ioredis';
import { z } from 'zod';
import { batchRetrySchema } from '../../../shared/batches/batch.ts';
import type { Log } from '../../../shared/process/log.ts';
import type { BatchJob } from './batch-job.ts';

const about = { batch: z.string(), line: z.int().positive(), number: z.int().positive() };

/**
 * What a worker tells the one that has queued a line. `started`; `later`, and `full` from the release before: it is in its queue
 * again, and comes after a while; `ended`: it has a result, `answered` if a backend has given it; `again`: it is to be queued
 * again, as `retry` says; `dropped`: it was not run, and who queued it has to see why. None of it needs to arrive: who queued
 * it looks after what it does not hear of.
 */
const eventSchema = z.discriminatedUnion('news', [
  z.object({ news: z.enum(['started', 'later', 'full', 'dropped']), ...about }),
  z.object({ news: z.literal('ended'), answered: z.boolean(), ...about }),
  z.object({ news: z.literal('again'), ...about, retry: batchRetrySchema }),
]);

export type LineEvent = z.infer<typeof eventSchema>;

const fieldsSchema = z.object({ line: z.string() });

/** More than these at once, unread by their worker, and the oldest are dropped. */
const controlStreamLengthMax = 10_000;

/** What is told of a line beside which it is. */
type News = LineEvent extends infer One ? (One extends LineEvent ? Omit<One, keyof typeof about> : never) : never;

/** To the worker that has queued this line; of no effect where that is gone. Not waited for. */
export type SendLineEvent = (line: Pick<BatchJob, keyof typeof about | 'tellTo'>, news: News) => void;

export function createSendLineEvent(redis: Redis, log: Log): SendLineEvent {
  return function sendLineEvent({ tellTo, batch, line, number }, news) {
    const fields = ['line', JSON.stringify({ ...news, batch, line, number })];
    redis
      .xadd(tellTo, 'NOMKSTREAM', 'MAXLEN', '~', controlStreamLengthMax, '*', ...fields)
      .catch((error: unknown) => log.debug({ err: error }, 'who queued a line was not told of it'));
  };
}

/** The news in an entry of a control stream, undefined for anything else that stands there. */
export function decodeLineEvent(fields: Readonly<Record<string, string>>): LineEvent | undefined {
  const entry = fieldsSchema.safeParse(fields);
  if (!entry.success) return undefined;
  try {
    return eventSchema.safeParse(JSON.parse(entry.data.line)).data;
  } catch {
    return undefined;
  }
}
