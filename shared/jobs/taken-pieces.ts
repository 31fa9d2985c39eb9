import { z } from 'zod';
import type { Redis } from '../redis/connections.ts';
import { controlStreamLengthMax } from './cancellation.ts';
import { wholeNumber } from './whole-number.ts';

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
