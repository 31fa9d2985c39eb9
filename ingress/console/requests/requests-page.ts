import { h } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { Account } from '../../routes/accounts.ts';
import type { Key } from '../../routes/present-key.ts';
import type { Api } from '../api/api.ts';
import { useLoaded, usePolled } from '../api/use-loaded.ts';
import { saveFile, useDoing } from '../page/actions.ts';
import { accountLink, type RequestFilter, requestsLink } from '../page/console-route.ts';
import { formatCount } from '../page/format.ts';
import { Failure, LoadedView } from '../page/loaded-view.ts';
import { FirstRequest } from './first-request.ts';
import { RequestChart } from './request-chart.ts';
import { Filters, FindForm, RangeChoice } from './request-filters.ts';
import { type LatestRows, readForExport, readLatest, requestsCsv } from './request-list.ts';
import { rangeNameOf, withRange } from './request-range.ts';
import { RequestTable } from './request-table.ts';

const pageSize = 25;
const lookEveryMs = 3_000;
const liveEveryMs = 2_000;

type Props = { api: Api; filter: RequestFilter; baseUrl: string; docsUrl: string };

/** The requests of the own account, latest first, also those that are running; or of another account, for operators. */
export function RequestsPage({ api, filter, baseUrl, docsUrl }: Props) {
  const { account } = filter;
  const [isLive, setLive] = useState(false);
  const keyNames = useKeyNames(api, account);
  return [
    account !== undefined && h('p', { class: 'crumb' }, h('a', { href: accountLink(account) }, account)),
    h('h1', { tabIndex: -1 }, account === undefined ? 'Requests' : `Requests of ${account}`),
    h(
      'p',
      { class: 'lead' },
      account === undefined ? 'Every request of your account, newest first.' : 'Every request, newest first.',
      ' The text of requests and answers is not kept.',
    ),
    h('div', { class: 'toolbar times' }, h(RangeChoice, { filter }), h(LiveSwitch, { isLive, setLive })),
    h(RequestChart, { api, filter, isLive, docsUrl }),
    h('div', { class: 'toolbar' }, h(Filters, { api, filter, keyNames })),
    h(List, { key: requestsLink(filter), api, filter, isLive, keyNames, baseUrl }),
  ];
}

/** Names of keys by their ids. An account that has none has no such names, as those whose keys cannot be read. */
export function useKeyNames(api: Api, account: string | undefined): ReadonlyMap<string, string> {
  const loaded = useLoaded(
    async (signal) => {
      if (account === undefined) return (await api.call<{ data: Key[] }>('/v1/keys', { signal })).data;
      return (await api.call<Account>(`/admin/accounts/${encodeURIComponent(account)}`, { signal })).keys;
    },
    [account],
  );
  return new Map(loaded.value?.map(({ id, name }) => [id, name]));
}

function LiveSwitch({ isLive, setLive }: { isLive: boolean; setLive: (isLive: boolean) => void }) {
  return h(
    'label',
    { class: 'switch' },
    h('input', {
      type: 'checkbox',
      role: 'switch',
      checked: isLive,
      onChange: ({ currentTarget }: { currentTarget: HTMLInputElement }) => setLive(currentTarget.checked),
    }),
    'Live',
  );
}

type ListProps = Omit<Props, 'docsUrl'> & { isLive: boolean; keyNames: ReadonlyMap<string, string> };

/**
 * The newest page, and the pages that were asked for. It is read again while it is live, while requests run, and while the first one is
 * waited for.
 */
function List({ api, filter, isLive, keyNames, baseUrl }: ListProps) {
  const [wanted, setWanted] = useState(pageSize);
  const loaded = useLoaded((signal) => readLatest(api, { filter, wanted, signal }), [wanted]);
  const isMoving = loaded.value?.data.some(({ state }) => state !== 'ended') ?? false;
  const hasNone = loaded.value?.hasNone ?? false;
  const isOnFirstPage = wanted === pageSize;
  usePolled(loaded, {
    everyMs: isLive || hasNone ? liveEveryMs : lookEveryMs,
    active: isLive || hasNone || (isMoving && isOnFirstPage),
  });
  return [
    h(NewRequests, { ids: loaded.value?.data.map(({ id }) => id), isLive: isLive || hasNone }),
    h(LoadedView<LatestRows>, {
      loaded,
      what: 'your requests',
      lines: pageSize,
      children: ({ data, hasMore }) => [
        hasNone && h(FirstRequest, { api, baseUrl }),
        data.length === 0 && !hasNone && h(NoRequest, { filter }),
        data.length > 0 && h(RequestTable, { caption: 'Requests, latest first', requests: data }),
        h(
          'div',
          { class: 'toolbar' },
          hasMore && h('button', { type: 'button', onClick: () => setWanted(wanted + pageSize) }, 'Show more'),
          data.length > 0 && h(ExportButton, { api, filter, keyNames }),
          !hasNone && h(FindForm, { isOwn: filter.account === undefined }),
        ),
      ],
    }),
  ];
}

type ExportProps = Pick<ListProps, 'api' | 'filter' | 'keyNames'>;

/** Reads all pages of the list for a file, and says if there are more than it has. */
function ExportButton({ api, filter, keyNames }: ExportProps) {
  const [read, setRead] = useState(0);
  const [said, say] = useState('');
  const leaving = useRef(new AbortController());
  useEffect(() => () => leaving.current.abort(), []);
  const doing = useDoing(async () => {
    setRead(0);
    say('');
    const { data, hasMore } = await readForExport(api, { filter, progress: setRead, signal: leaving.current.signal });
    saveFile(new Blob([requestsCsv(data, keyNames)], { type: 'text/csv' }), 'requests.csv');
    if (hasMore)
      say(`The file has the latest ${formatCount(data.length)} rows. There are more: choose a shorter time.`);
  });
  return [
    h('button', { type: 'button', 'aria-disabled': doing.busy, onClick: doing.run }, 'Export as CSV'),
    h('span', { class: said === '' ? 'unseen' : 'quiet', role: 'status' }, doing.busy ? 'Reading …' : said),
    doing.busy && h('span', { class: 'quiet' }, `${formatCount(read)} rows read`),
    doing.error !== undefined && h(Failure, { error: doing.error }),
  ];
}

/** A longer range can have some. */
function NoRequest({ filter }: { filter: RequestFilter }) {
  const isLong = ['30d', 'own'].includes(rangeNameOf(filter));
  return h(
    'p',
    { class: 'empty' },
    'No request fits. ',
    !isLong && h('a', { href: requestsLink(withRange(filter, '30d')) }, 'Look at 30 days'),
  );
}

/** Announces what has come, once for each time that the list was read. */
function NewRequests({ ids, isLive }: { ids: readonly string[] | undefined; isLive: boolean }) {
  const known = useRef<ReadonlySet<string> | undefined>(undefined);
  const [said, say] = useState('');
  const present = ids?.join();
  useEffect(() => {
    if (ids === undefined) return;
    const before = known.current;
    known.current = new Set(ids);
    if (before === undefined || !isLive) return;
    const fresh = ids.filter((id) => !before.has(id)).length;
    if (fresh > 0) say(`${fresh} new ${fresh === 1 ? 'request' : 'requests'}.`);
  }, [present, isLive]);
  return h('p', { class: 'unseen', role: 'status' }, said);
}
