import { nextTurn } from '../../shared/concurrency/in-turn.ts';
import { pieceBytesMax, piecesAheadMax, type TakenPieces } from '../../shared/jobs/control-messages.ts';
import type { HeldAnswer } from '../../shared/process/answer-budget.ts';

/** The body of a complete response: its text, or its bytes in parts. */
export type AnswerBody = string | readonly Buffer[];

export function bytesOfBody(body: AnswerBody): number {
  return typeof body === 'string' ? Buffer.byteLength(body) : body.reduce((sum, part) => sum + part.length, 0);
}

export function textOfBody(body: AnswerBody): string {
  return typeof body === 'string' ? body : Buffer.concat(body).toString();
}

/** Learns from the ingresses what clients have taken of the answers that are sent in pieces. */
export function createPieceReaders() {
  const readers = new Map<string, (bytes: number) => void>();
  return {
    /** Calls `onTaken` with the bytes of this request that were taken so far. The returned function ends that. */
    follow(request: string, onTaken: (bytes: number) => void): () => void {
      readers.set(request, onTaken);
      return () => readers.delete(request);
    },
    report: ({ request, bytes }: TakenPieces): void => readers.get(request)?.(bytes),
  };
}

export type PieceReaders = ReturnType<typeof createPieceReaders>;

/** What a run sends pieces with. `signal`: its client is gone, or its time is over. */
export type PieceOptions = {
  readers: Pick<PieceReaders, 'follow'>;
  /** All of it is held until the run ends. */
  held: Pick<HeldAnswer, 'stall' | 'flow'>;
  /** Calls back when the ingress is gone, and the client with it. The returned function ends that. */
  followReader: (onGone: () => void) => () => void;
  signal: AbortSignal;
};

/**
 * Sends a body piece by piece, each with the bytes of the whole body, at most 1 MiB ahead of its client (contract.md#p8-pieces). False if
 * it was given up: the client is gone, its time is over, or it does not read and others need the room.
 */
export async function sendPieces(
  body: AnswerBody,
  { readers, held, followReader, signal, request }: PieceOptions & { request: string },
  send: (piece: string, bytes: number) => Promise<void>,
): Promise<boolean> {
  const parts = typeof body === 'string' ? [Buffer.from(body)] : body;
  const bytes = bytesOfBody(parts);
  let sent = 0;
  let taken = 0;
  let isGivenUp = signal.aborted;
  let wake = () => {};
  const giveUp = () => {
    isGivenUp = true;
    wake();
  };
  const unfollow = readers.follow(request, (bytesTaken) => {
    held.flow(bytesTaken - taken);
    taken = bytesTaken;
    wake();
  });
  const unfollowReader = followReader(giveUp);
  signal.addEventListener('abort', giveUp, { once: true });

  /** Resolves when the client has taken enough. */
  async function untilTaken(next: number): Promise<void> {
    while (!isGivenUp && sent + next - taken > piecesAheadMax) {
      held.stall(giveUp);
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
    }
  }

  try {
    for (const piece of inPieces(parts)) {
      await untilTaken(piece.length);
      await nextTurn();
      if (isGivenUp) return false;
      // One character for each byte: a piece may end within a character of the body.
      await send(piece.toString('latin1'), bytes);
      sent += piece.length;
    }
    return true;
  } finally {
    unfollow();
    unfollowReader();
    signal.removeEventListener('abort', giveUp);
  }
}

/** The bytes of a body in pieces of the largest size, except the last. */
function* inPieces(body: readonly Buffer[]): Generator<Buffer> {
  let parts: Buffer[] = [];
  let length = 0;
  for (const whole of body) {
    for (let at = 0; at < whole.length; ) {
      const part = whole.subarray(at, at + pieceBytesMax - length);
      parts.push(part);
      length += part.length;
      at += part.length;
      if (length < pieceBytesMax) continue;
      yield Buffer.concat(parts, length);
      parts = [];
      length = 0;
    }
  }
  if (length > 0) yield Buffer.concat(parts, length);
}
