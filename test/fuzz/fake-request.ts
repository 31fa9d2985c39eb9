import type { IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';
import { crc32 } from 'node:zlib';
import type { AppContext, RequestState } from '../../ingress/request-state.ts';
import { seededRandom } from '../support/random.ts';

/** A request as the stages read it: these headers, each once, and a body that arrives in these pieces. */
export function fakeContext(
  headers: Readonly<Record<string, string>>,
  body: Iterable<Uint8Array>,
  state: RequestState,
) {
  const rawHeaders = Object.entries(headers).flat();
  const socket = { remoteAddress: '192.0.2.1' };
  const req = Object.assign(Readable.from(body, { objectMode: false }), { headers, rawHeaders, socket });
  // The stages read nothing else of the two.
  return { req: req as unknown as IncomingMessage, res: { writeContinue() {} }, state } as unknown as AppContext;
}

const piecesMax = 200;

/** Pieces of random lengths, mostly short, always the same for the same bytes. */
export function inPieces(bytes: Uint8Array): Uint8Array[] {
  const random = seededRandom(crc32(bytes));
  const longest = Math.max(random.oneOf([1, 4, 30]), (2 * bytes.length) / piecesMax);
  const pieces: Uint8Array[] = [];
  for (let at = 0; at < bytes.length; ) {
    const end = at + Math.ceil(random.between(0.01, longest));
    pieces.push(bytes.subarray(at, end));
    at = end;
  }
  return pieces;
}
