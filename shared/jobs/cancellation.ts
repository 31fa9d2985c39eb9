import type { Redis } from 'ioredis';
import { z } from 'zod';

const cancellationSchema = z.object({ request: z.string() });

/** More cancellations than this at once, unread by their worker, and the oldest are dropped: that worker is gone. */
const controlStreamLengthMax = 10_000;

/** Asks the worker behind this control stream to abort a request; of no effect when either of them is gone. */
export async function sendCancellation(redis: Redis, control: string, request: string): Promise<void> {
  await redis.xadd(control, 'NOMKSTREAM', 'MAXLEN', '~', controlStreamLengthMax, '*', 'request', request);
}

/** The request to abort, or undefined for anything else that stands in the stream. */
export function decodeCancellation(fields: Readonly<Record<string, string>>): string | undefined {
  const parsed = cancellationSchema.safeParse(fields);
  return parsed.success ? parsed.data.request : undefined;
}
