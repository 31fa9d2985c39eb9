import { z } from 'zod';
import type { Redis } from '../redis/connections.ts';

const cancellationSchema = z.object({ request: z.string() });

/** If a control stream has more unread entries than this, the oldest are dropped: its worker is dead. */
export const controlStreamLengthMax = 10_000;

/**
 * Asks the worker behind this control stream to abort a request (contract.md#p6-cancelling). Has no effect if the worker or the request is
 * gone.
 */
export async function sendCancellation(redis: Redis, control: string, request: string): Promise<void> {
  await redis.xadd(control, 'NOMKSTREAM', 'MAXLEN', '~', controlStreamLengthMax, '*', 'request', request);
}

/** Returns the request to abort, or undefined for any other entry of the stream. */
export function decodeCancellation(fields: Readonly<Record<string, string>>): string | undefined {
  const parsed = cancellationSchema.safeParse(fields);
  return parsed.success ? parsed.data.request : undefined;
}
