import { Readable } from 'node:stream';
import type { Log } from '../../shared/process/log.ts';
import type { UsageDetail } from '../../shared/store/usage/usage-details.ts';
import type { AppContext } from '../request-state.ts';
import { addToTop, mostCharged, presentReport } from './present-report.ts';
import type { Pricing } from './prices.ts';
import { type ReportRow, reportRows } from './report-rows.ts';
import { type Columns, csvHeader, csvLine } from './usage-csv.ts';
import type { ReportQuery } from './usage-query.ts';

export type Report = {
  details: AsyncIterable<readonly UsageDetail[]>;
  query: ReportQuery;
  pricing: Pricing | undefined;
  isOfOneAccount: boolean;
  /** Only so many rows, those with the most charged tokens. */
  top?: number | undefined;
};

type Deps = { log: Log; now?: () => number };

/** Characters that are sent together. */
const blockLength = 16_384;
/** The time that a client has to read a report, beside the time that its bytes take at the minimum rate (contract.md#v1-unread-answers). */
const readingMs = 60_000;
const bytesPerSecondMin = 16_384;

/** Answers with the report, as JSON or as a file of CSV. */
export async function answerReport(ctx: AppContext, report: Report, deps: Deps): Promise<void> {
  const { query, pricing, top, ...source } = report;
  const rows = reportRows(whileConnected(ctx, source.details), { ...query, pricing, ...source });
  if (query.format === 'csv')
    return answerCsv(ctx, top === undefined ? rows : topOf(rows, top), { query, pricing, ...deps });
  ctx.body = await presentReport(rows, { ...query, pricing, top });
}

/** Ends when the client has left: a report over many accounts reads the store for long, and no one would get it. */
async function* whileConnected<Item>({ res }: AppContext, items: AsyncIterable<Item>): AsyncGenerator<Item> {
  for await (const item of items) {
    if (res.closed) return;
    yield item;
  }
}

async function* topOf(rows: AsyncIterable<readonly ReportRow[]>, top: number): AsyncGenerator<ReportRow[]> {
  let kept: ReportRow[] = [];
  for await (const piece of rows) kept = addToTop(kept, piece, top);
  yield mostCharged(kept, top);
}

type Csv = Pick<Report, 'query' | 'pricing'> & Deps;

/** Streams the rows as they are read, no faster than the client takes them. */
async function answerCsv(ctx: AppContext, rows: AsyncGenerator<ReportRow[]>, csv: Csv): Promise<void> {
  const { start, end } = csv.query.range;
  // Before the status and headers are set: if the store is unavailable, the response is an error, not a file.
  const first = ctx.method === 'HEAD' ? undefined : await rows.next();
  ctx.status = 200;
  ctx.set('content-type', 'text/csv; charset=utf-8; header=present');
  ctx.attachment(`usage-${start}-${end}.csv`);
  if (first === undefined) return;
  ctx.state.limitsReading = true;
  ctx.body = Readable.from(blocks(ctx, withFirst(first, rows), csv), { objectMode: false });
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
async function* blocks(ctx: AppContext, rows: AsyncIterable<readonly ReportRow[]>, csv: Csv): AsyncGenerator<Buffer> {
  const { query, pricing, log, now = () => performance.now() } = csv;
  const columns = { groups: query.groups, pricing };
  let [readForMs, bytes] = [0, 0];
  try {
    for await (const text of joined(linesOf(rows, columns))) {
      const block = Buffer.from(text);
      const offeredAt = now();
      yield block;
      readForMs += now() - offeredAt;
      bytes += block.length;
      if (readForMs > readingMs + (bytes / bytesPerSecondMin) * 1_000) throw new Error('the client reads too slowly');
    }
  } catch (error) {
    log.warn({ err: error, requestId: ctx.state.requestId }, 'a report of usage was not sent completely');
    ctx.req.socket.resetAndDestroy();
    throw error;
  }
}

async function* linesOf(rows: AsyncIterable<readonly ReportRow[]>, columns: Columns): AsyncGenerator<string> {
  yield csvHeader(columns);
  for await (const piece of rows) for (const row of piece) yield csvLine(row, columns);
}

/** Joins texts to texts of about the length of a block. */
async function* joined(texts: AsyncIterable<string>): AsyncGenerator<string> {
  let text = '';
  for await (const next of texts) {
    text += next;
    if (text.length < blockLength) continue;
    yield text;
    text = '';
  }
  if (text !== '') yield text;
}
