import { Readable } from 'node:stream';
import type { Log } from '../../shared/process/log.ts';
import type { AppContext } from '../request-state.ts';

/** Characters that are sent together. */
const blockLength = 16_384;
/** The time that a client has to read a file, beside the time that its bytes take at the minimum rate (contract.md#v1-unread-answers). */
const readingMs = 60_000;
const bytesPerSecondMin = 16_384;

/** `pieces`: the lines after the header, some at once. `what` is for the log: `a report of usage`. */
type CsvFile = { name: string; header: string; pieces: AsyncGenerator<string[]>; what: string };

type Deps = { log: Pick<Log, 'warn'>; now?: () => number };

/** Streams a file of CSV as its lines are read, no faster than the client takes them. */
export async function answerCsvFile(ctx: AppContext, file: CsvFile, deps: Deps): Promise<void> {
  // Before the status and headers are set: if the store is unavailable, the response is an error, not a file.
  const first = ctx.method === 'HEAD' ? undefined : await file.pieces.next();
  ctx.status = 200;
  ctx.set('content-type', 'text/csv; charset=utf-8; header=present');
  ctx.attachment(file.name);
  if (first === undefined) return;
  ctx.state.limitsReading = true;
  ctx.body = Readable.from(blocks(ctx, { ...file, pieces: withFirst(first, file.pieces) }, deps), {
    objectMode: false,
  });
}

/** Ends when the client has left: a long list reads the store for long, and no one would get it. */
export async function* whileConnected<Item>({ res }: AppContext, items: AsyncIterable<Item>): AsyncGenerator<Item> {
  for await (const item of items) {
    if (res.closed) return;
    yield item;
  }
}

/** A line of CSV (RFC 4180), with its end. */
export function csvLineOf(cells: readonly string[]): string {
  return `${cells.join()}\r\n`;
}

/**
 * No name of an account, model, key or endpoint begins like a formula of a spreadsheet. If a text does, a quotation mark in front of it
 * makes it a text.
 */
export function textCell(text: string): string {
  const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\r\n]|^\s|\s$/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

async function* withFirst<Item>(first: IteratorResult<Item>, rest: AsyncGenerator<Item>): AsyncGenerator<Item> {
  if (first.done) return;
  yield first.value;
  yield* rest;
}

/**
 * The bytes of the file. If the rest cannot be read, or the client takes too long, the connection is reset: even a client of HTTP/1.0,
 * which takes the end of the connection for that of the file, does not take a part for the complete file.
 */
async function* blocks(ctx: AppContext, file: CsvFile, { log, now = () => performance.now() }: Deps) {
  let [readForMs, bytes] = [0, 0];
  try {
    for await (const text of joined(file)) {
      const block = Buffer.from(text);
      const offeredAt = now();
      yield block;
      readForMs += now() - offeredAt;
      bytes += block.length;
      if (readForMs > readingMs + (bytes / bytesPerSecondMin) * 1_000) throw new Error('the client reads too slowly');
    }
  } catch (error) {
    log.warn({ err: error, requestId: ctx.state.requestId }, `${file.what} was not sent completely`);
    ctx.req.socket.resetAndDestroy();
    throw error;
  }
}

/** Joins lines to texts of about the length of a block. */
async function* joined({ header, pieces }: CsvFile): AsyncGenerator<string> {
  let text = header;
  for await (const piece of pieces) {
    for (const line of piece) {
      text += line;
      if (text.length < blockLength) continue;
      yield text;
      text = '';
    }
  }
  if (text !== '') yield text;
}
