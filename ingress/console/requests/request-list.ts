import type { RequestList } from '../../routes/present-request.ts';
import type { Api } from '../api/api.ts';
import type { RequestFilter } from '../page/console-route.ts';
import type { ShownRequest } from './explain-request.ts';
import { timesOf, timeText } from './request-range.ts';
import { resultWords } from './request-words.ts';

/** A request, or lines of a batch as one row. */
export type RequestRow = ShownRequest & Pick<RequestList['data'][number], 'lines'>;
type RequestRows = { data: RequestRow[]; hasMore: boolean };
export type LatestRows = RequestRows & {
  /** The own account has no request at all. */
  hasNone: boolean;
};

type ListOptions = {
  filter: RequestFilter;
  wanted: number;
  signal: AbortSignal;
  /** Calls at most; 20 by default. */
  callsMax?: number;
  /** Called with the rows that were read so far. */
  progress?: (rows: number) => void;
};

/** Where the requests of an account are: of the own one, or of one that an operator looks at. */
export function requestsPath({ account }: Pick<RequestFilter, 'account'>): string {
  return account === undefined ? '/v1/requests' : `/admin/accounts/${encodeURIComponent(account)}/requests`;
}

/** The filter as the API takes it, with the times of its range at `now` (seconds since 1970). */
export function queryOf(filter: RequestFilter, now: number): Record<string, string> {
  const { account: _account, range: _range, ...named } = filter;
  const { start, end } = timesOf(filter, now);
  // A range that ends now has no end: a request that comes meanwhile is listed, too.
  return {
    ...named,
    start: timeText(start),
    ...(filter.end !== undefined && { end: timeText(end) }),
    ...(filter.batch_id === undefined && { fold_lines: 'true' }),
  };
}

/** With a filter a page can be empty while more follow, so it asks for a few more. */
const usualCallsMax = 20;
const pageSizeMax = 100;

/**
 * Asks whether the account has any request only if none is listed. If the first one came between these two calls, the list is read again, so
 * that it is not missed.
 */
export async function readLatest(api: Api, options: ListOptions): Promise<LatestRows> {
  const { filter, signal } = options;
  const rows = await readRequests(api, options);
  if (rows.data.length > 0 || filter.account !== undefined) return { ...rows, hasNone: false };
  const any = await api.call<RequestList>(`${requestsPath({})}?limit=1`, { signal });
  if (any.data.length === 0) return { ...rows, hasNone: true };
  return { ...(await readRequests(api, options)), hasNone: false };
}

async function readRequests(api: Api, options: ListOptions): Promise<RequestRows> {
  const { filter, wanted, signal, callsMax = usualCallsMax, progress } = options;
  const asked = queryOf(filter, Date.now() / 1_000);
  let data: RequestRow[] = [];
  let after: string | null = null;
  for (let calls = 0; ; calls += 1) {
    const limit = String(Math.min(pageSizeMax, wanted - data.length));
    const query = new URLSearchParams({ ...asked, limit, ...(after && { after }) });
    const page: RequestList = await api.call<RequestList>(`${requestsPath(filter)}?${query}`, { signal });
    data = joined(data, page.data);
    after = page.last_id;
    progress?.(data.length);
    if (!page.has_more || after === null) return { data, hasMore: false };
    if (data.length >= wanted || calls === callsMax) return { data, hasMore: true };
  }
}

/** Pages in order. Lines of a batch that go on in a later page stay one row. */
export function joined(before: readonly RequestRow[], next: readonly RequestRow[]): RequestRow[] {
  const rows = [...before];
  for (const row of next) {
    const at = row.batch_id === null ? -1 : rows.findIndex(({ batch_id: batch }) => batch === row.batch_id);
    const known = rows[at];
    if (known === undefined) rows.push(row);
    else rows[at] = { ...known, lines: addedLines(linesOf(known), linesOf(row)) };
  }
  return rows;
}

type FoldedLines = NonNullable<RequestRow['lines']>;

function addedLines(one: FoldedLines, other: FoldedLines): FoldedLines {
  return {
    requests: one.requests + other.requests,
    failed: one.failed + other.failed,
    charged_tokens: one.charged_tokens + other.charged_tokens,
  };
}

function linesOf({ lines, outcome, charged_tokens: charged }: RequestRow): FoldedLines {
  const hasFailed = outcome === 'failed' || outcome === 'lost';
  return lines ?? { requests: 1, failed: Number(hasFailed), charged_tokens: charged ?? 0 };
}

const columns: readonly [name: string, cell: (row: RequestRow, keyName: string) => string | number | null][] = [
  ['id', ({ id }) => id],
  ['created_at', ({ created_at: at }) => timeText(at)],
  ['result', (row) => resultWords(row)],
  ['status', ({ status }) => status],
  ['code', ({ code }) => code],
  ['model', ({ model }) => model],
  ['endpoint', ({ endpoint }) => endpoint],
  ['key_id', ({ key_id: key }) => key],
  ['key', (_, keyName) => keyName],
  ['batch_id', ({ batch_id: batch }) => batch],
  ['lines', ({ lines }) => lines?.requests ?? null],
  ['lines_failed', ({ lines }) => lines?.failed ?? null],
  ['queue_ms', ({ queue_ms: ms }) => ms],
  ['first_token_ms', ({ first_token_ms: ms }) => ms],
  ['duration_ms', ({ duration_ms: ms }) => ms],
  ['prompt_tokens', ({ usage }) => usage?.prompt_tokens ?? null],
  ['completion_tokens', ({ usage }) => usage?.completion_tokens ?? null],
  ['charged_tokens', ({ lines, charged_tokens: charged }) => lines?.charged_tokens ?? charged],
];

export const exportedMax = 10_000;
const exportCallsMax = 300;

/** All rows of the list, at most `exportedMax`, for a file. */
export function readForExport(api: Api, options: Omit<ListOptions, 'wanted' | 'callsMax'>): Promise<RequestRows> {
  return readRequests(api, { ...options, wanted: exportedMax, callsMax: exportCallsMax });
}

/** These rows as a file. */
export function requestsCsv(rows: readonly RequestRow[], keyNames: ReadonlyMap<string, string>): string {
  return csvOf(
    columns.map(([name]) => name),
    rows.map((row) => columns.map(([, cell]) => cell(row, keyNames.get(row.key_id ?? '') ?? ''))),
  );
}

/** A file of CSV (RFC 4180): its first line has the names of the columns. */
function csvOf(header: readonly string[], rows: readonly (readonly (string | number | null)[])[]): string {
  return [header, ...rows].map((cells) => `${cells.map(cellOf).join()}\r\n`).join('');
}

/** A text that begins like a formula of a spreadsheet gets a quotation mark in front of it, which makes it a text. */
function cellOf(value: string | number | null): string {
  if (typeof value === 'number') return String(value);
  const text = value ?? '';
  const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\r\n]|^\s|\s$/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
