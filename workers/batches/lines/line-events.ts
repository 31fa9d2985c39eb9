import { z } from 'zod';
import { type BatchRetry, batchRetrySchema } from '../../../shared/batches/batch.ts';
import { controlStreamLengthMax } from '../../../shared/jobs/control-messages.ts';
import type { Log } from '../../../shared/process/log.ts';
import type { Redis } from '../../../shared/redis/connections.ts';
import type { BatchJob } from './batch-job.ts';

/** The request of a line that an event is about. */
type LineId = Pick<BatchJob, 'batch' | 'line' | 'number'>;

/**
 * What happened to a line's request. `postponed`: its job is back in the queue and becomes due later; `ended`: the line has a
 * result, and `answered` says whether a backend gave it; `retry`: the line must be queued again as `retry` says; `dropped`: it
 * was not run, and the worker that queued it must find out why.
 */
export type LineChange =
  | { type: 'started' | 'postponed' | 'dropped' }
  | { type: 'ended'; answered: boolean }
  | { type: 'retry'; retry: BatchRetry };

/** Sent to the worker that queued the line. Events may be lost: that worker checks lines that it has no event of. */
export type LineEvent = LineId & LineChange;

const lineId = { batch: z.string(), line: z.int().positive(), number: z.int().positive() };

const eventSchema = z.discriminatedUnion('type', [
  z.object({ type: z.enum(['started', 'postponed', 'dropped']), ...lineId }),
  z.object({ type: z.literal('ended'), answered: z.boolean(), ...lineId }),
  z.object({ type: z.literal('retry'), ...lineId, retry: batchRetrySchema }),
]);

const fieldsSchema = z.object({ line: z.string() });

/** Does not wait for Redis, and has no effect if the worker that queued the line is gone. */
export type SendLineEvent = (line: LineId & Pick<BatchJob, 'tellTo'>, change: LineChange) => void;

export function createSendLineEvent(redis: Redis, log: Log): SendLineEvent {
  return function sendLineEvent({ tellTo, batch, line, number }, change) {
    if (tellTo === '') return; // no worker waits for it
    const fields = ['line', JSON.stringify({ ...change, batch, line, number })];
    redis
      .xadd(tellTo, 'NOMKSTREAM', 'MAXLEN', '~', controlStreamLengthMax, '*', ...fields)
      .catch((error: unknown) => log.debug({ err: error }, 'a line event was not sent'));
  };
}

/** Returns the event in an entry of a control stream, or undefined for any other entry. */
export function decodeLineEvent(fields: Readonly<Record<string, string>>): LineEvent | undefined {
  const entry = fieldsSchema.safeParse(fields);
  if (!entry.success) return undefined;
  try {
    return eventSchema.safeParse(JSON.parse(entry.data.line)).data;
  } catch {
    return undefined;
  }
}
