import { h } from 'preact';
import { batchLink, foundLink, requestLink } from '../page/console-route.ts';
import { formatCount, formatMs } from '../page/format.ts';
import { StateBadge } from '../page/icons.ts';
import { ShortId } from '../page/identifiers.ts';
import { type Column, Table } from '../page/table.ts';
import { TimeAgo } from '../page/time-ago.ts';
import type { RequestRow } from './request-list.ts';
import { requestState } from './request-words.ts';

type Props<Shown extends RequestRow> = {
  caption: string;
  requests: readonly Shown[];
  /** The columns that are shown; all if left out. */
  isShort?: boolean;
  /** A column after all others. */
  last?: Column<Shown>;
};

/** Requests by their ids, each with a link to its page. Lines of a batch that follow each other are one row. */
export function RequestTable<Shown extends RequestRow>(props: Props<Shown>) {
  const { caption, requests, isShort = false, last } = props;
  const columns = isShort ? [result, model, when, tokens] : [result, model, endpoint, when, firstToken, total, tokens];
  return h(Table<Shown>, {
    caption,
    rows: requests,
    rowKey: ({ id }) => id,
    columns: [request, ...columns, ...(last === undefined ? [] : [last])],
  });
}

/** For operators, the pages of all accounts. */
const request: Column<RequestRow> = {
  title: 'Request',
  phone: 'first',
  cell({ id, account, batch_id: batch, lines }) {
    if (lines === undefined || batch === null)
      return h(ShortId, { id, what: 'request ID', href: account === undefined ? requestLink(id) : foundLink(id) });
    const href = account === undefined ? batchLink(batch) : foundLink(batch);
    return h('a', { href, title: batch }, `${formatCount(lines.requests)} batch lines`);
  },
};

const result: Column<RequestRow> = {
  title: 'Result',
  phone: 'end',
  cell: ({ lines, ...row }) =>
    lines === undefined || lines.failed === 0
      ? h(StateBadge, requestState(row))
      : h(StateBadge, { state: `${formatCount(lines.failed)} failed`, tone: 'bad' }),
  sortBy: (row) => requestState(row).state,
};
const model: Column<RequestRow> = {
  title: 'Model',
  phone: 'second',
  cell: ({ model }) => model,
  sortBy: ({ model }) => model,
};
const endpoint: Column<RequestRow> = {
  title: 'Endpoint',
  phone: 'none',
  cell: ({ endpoint }) => endpoint.replace(/^\/v1\//, ''),
  sortBy: ({ endpoint }) => endpoint,
};
const when: Column<RequestRow> = {
  title: 'Started',
  phone: 'second',
  cell: ({ created_at: at }) => h(TimeAgo, { at }),
  sortBy: ({ created_at: at }) => at,
};
const firstToken: Column<RequestRow> = {
  title: 'First token',
  holds: 'number',
  phone: 'none',
  cell: ({ lines, first_token_ms: ms }) => (lines !== undefined || ms === null ? '–' : formatMs(ms)),
  sortBy: ({ first_token_ms: ms }) => ms ?? undefined,
};
const total: Column<RequestRow> = {
  title: 'Duration',
  holds: 'number',
  phone: 'second',
  cell: ({ lines, duration_ms: ms }) => (lines !== undefined || ms === null ? '–' : formatMs(ms)),
  sortBy: ({ duration_ms: ms }) => ms ?? undefined,
};
const tokens: Column<RequestRow> = {
  title: 'Tokens',
  holds: 'number',
  phone: 'none',
  cell({ lines, charged_tokens: charged }) {
    const tokens = lines?.charged_tokens ?? charged;
    return tokens === null ? '–' : formatCount(tokens);
  },
  sortBy: ({ lines, charged_tokens: charged }) => lines?.charged_tokens ?? charged ?? undefined,
};
