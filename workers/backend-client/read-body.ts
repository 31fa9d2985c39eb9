import { BackendError, readSaidBody } from '../../shared/endpoints/answers/backend-error.ts';
import { decodeBackendText } from '../../shared/endpoints/answers/parse-backend-json.ts';
import type { SizeBudget } from '../../shared/endpoints/definition/answer-format.ts';
import { type BodyReader, type Exchange, type Head, readRetryAfter } from './exchange.ts';

/** The body of an error is read only up to these limits, because the status is enough without it. */
const errorBytesMax = 65_536;
const errorMs = 1_000;
const piecesMax = 1_024;

/** Keeps what it takes of a whole answer, and returns the answer at its end. Both fail with `BackendError`. */
export interface WholeBody<Whole> {
  take(bytes: Buffer): void;
  end(): Whole;
}

/** The answer as text. */
export function wholeText(): WholeBody<string> {
  const { add, all } = gatherBytes();
  return { take: add, end: () => decodeBackendText([all()]) };
}

/** Reads a whole answer within this room. `onBytes` is called before its first part and with each part. */
export function readWhole<Result, Whole>(exchange: Exchange<Result>, options: WholeOptions<Whole>): BodyReader {
  const { room, body, onBytes, onWhole } = options;
  onBytes();
  return {
    take(bytes) {
      onBytes();
      room.spend(bytes.length);
      body.take(bytes);
    },
    end: () => onWhole(body.end()),
    breakOff: exchange.fail,
  };
}

type WholeOptions<Whole> = {
  room: SizeBudget;
  body: WholeBody<Whole>;
  onBytes: () => void;
  onWhole: (whole: Whole) => void;
};

/** Fails the exchange by its status and the first part of its body. A broken body is not a separate failure. */
export function readRefusal<Result>(exchange: Exchange<Result>, { status, headers }: Head): BodyReader {
  const body = gatherBytes();
  const refuse = () => {
    const said = readSaidBody(body.all().toString());
    const details = { status, said, retryAfterMs: readRetryAfter(headers) };
    exchange.fail(new BackendError('status', `the backend answered ${status}`, details));
  };
  exchange.expectWithin(errorMs, refuse);
  return {
    take(bytes) {
      if (body.add(bytes) > errorBytesMax) refuse();
    },
    end: refuse,
    breakOff: refuse,
  };
}

function gatherBytes() {
  const joined: Buffer[] = [];
  let pieces: Buffer[] = [];
  let length = 0;
  return {
    /** Returns the total number of bytes. */
    add(bytes: Buffer): number {
      // A piece can be as short as one byte, and takes a hundred bytes of memory besides its own.
      if (pieces.length === piecesMax) {
        joined.push(Buffer.concat(pieces));
        pieces = [];
      }
      pieces.push(bytes);
      length += bytes.length;
      return length;
    },
    all: (): Buffer => (length === pieces[0]?.length ? pieces[0] : Buffer.concat([...joined, ...pieces])),
  };
}
