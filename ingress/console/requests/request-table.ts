import { h } from 'preact';
import type { Request } from '../../routes/present-request.ts';
import { requestLink } from '../page/console-route.ts';
import { formatCount, formatMs, formatTime } from '../page/format.ts';
import { StateBadge } from '../page/icons.ts';
import { ShortId } from '../page/identifiers.ts';
import { type Column, Table } from '../page/table.ts';
import { requestState } from './request-words.ts';

type Props<Shown extends Request> = {
  caption: string;
  requests: readonly Shown[];
  /** The columns that are shown; all if left out. */
  isShort?: boolean;
  /** The page of a request; its own page of the console if left out. */
  linkOf?: (id: string) => string;
  /** A column after all others. */
  last?: Column<Shown>;
};

/** Requests by their ids, each with a link to its page. */
export function RequestTable<Shown extends Request>(props: Props<Shown>) {
  const { caption, requests, isShort = false, linkOf = requestLink, last } = props;
  const id: Column<Shown> = {
    title: 'Request',
    cell: ({ id }) => h(ShortId, { id, what: 'request ID', href: linkOf(id) }),
  };
  const columns = isShort ? [state, model, when, tokens] : [state, model, endpoint, when, firstToken, total, tokens];
  return h(Table<Shown>, {
    caption,
    rows: requests,
    rowKey: ({ id }) => id,
    columns: [id, ...columns, ...(last === undefined ? [] : [last])],
  });
}

const state: Column<Request> = { title: 'State', cell: (request) => h(StateBadge, requestState(request)) };
const model: Column<Request> = { title: 'Model', cell: ({ model }) => model, sortBy: ({ model }) => model };
const endpoint: Column<Request> = {
  title: 'Endpoint',
  cell: ({ endpoint }) => endpoint,
  sortBy: ({ endpoint }) => endpoint,
};
const when: Column<Request> = {
  title: 'Started',
  cell: ({ created_at: at }) => formatTime(at),
  sortBy: ({ created_at: at }) => at,
};
const firstToken: Column<Request> = {
  title: 'First token',
  holds: 'number',
  cell: ({ first_token_ms: ms }) => (ms === null ? '–' : formatMs(ms)),
  sortBy: ({ first_token_ms: ms }) => ms ?? undefined,
};
const total: Column<Request> = {
  title: 'Duration',
  holds: 'number',
  cell: ({ duration_ms: ms }) => (ms === null ? '–' : formatMs(ms)),
  sortBy: ({ duration_ms: ms }) => ms ?? undefined,
};
const tokens: Column<Request> = {
  title: 'Tokens charged',
  holds: 'number',
  cell: ({ charged_tokens: tokens }) => (tokens === null ? '–' : formatCount(tokens)),
  sortBy: ({ charged_tokens: tokens }) => tokens ?? undefined,
};
