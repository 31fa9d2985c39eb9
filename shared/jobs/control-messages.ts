import { z } from 'zod';
import type { Redis } from '../redis/connections.ts';
import { wholeNumber } from './replies.ts';

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

const takenSchema = z.object({ reader: z.string(), taken: wholeNumber });

/** How many bytes of the pieces of an answer its client has taken so far. */
export type TakenPieces = { request: string; bytes: number };

/** A worker is at most this many bytes of an answer ahead of its client. */
export const piecesAheadMax = 1_048_576;
/** The most bytes of one piece. */
export const pieceBytesMax = 262_144;

/** Reports to the worker behind this control stream what a client has taken, so that more is sent (contract.md#p8-pieces). */
export async function sendTaken(redis: Redis, control: string, { request, bytes }: TakenPieces): Promise<void> {
  const fields = ['reader', request, 'taken', bytes];
  await redis.xadd(control, 'NOMKSTREAM', 'MAXLEN', '~', controlStreamLengthMax, '*', ...fields);
}

/** Returns what was taken, or undefined for any other entry of the stream. */
export function decodeTaken(fields: Readonly<Record<string, string>>): TakenPieces | undefined {
  const { data } = takenSchema.safeParse(fields);
  return data && { request: data.reader, bytes: data.taken };
}
