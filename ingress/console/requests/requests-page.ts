import { h } from 'preact';
import { useState } from 'preact/hooks';
import type { Model } from '../../routes/models.ts';
import type { Key } from '../../routes/present-key.ts';
import type { Request, RequestList } from '../../routes/present-request.ts';
import type { Api } from '../api/api.ts';
import { useLoaded, usePolled } from '../api/use-loaded.ts';
import { type RequestFilter, requestLink, requestsLink } from '../page/console-route.ts';
import { LabelledInput, namedOptions, Select } from '../page/fields.ts';
import { StateBadge } from '../page/icons.ts';
import { CopyButton } from '../page/identifiers.ts';
import { LoadedView } from '../page/loaded-view.ts';
import { hasLeftNoRecord, LeftNoRecord, RequestDetail } from './request-detail.ts';
import { RequestTable } from './request-table.ts';
import { requestState } from './request-words.ts';

const pageSize = 25;
const lookEveryMs = 3_000;

/** The requests of the account, latest first, also those that are running. */
export function RequestsPage({ api, filter }: { api: Api; filter: RequestFilter }) {
  return [
    h('h1', { tabIndex: -1 }, 'Requests'),
    h(
      'p',
      { class: 'lead' },
      'What your programs have asked for, and what became of it. The text of requests and answers is not kept.',
    ),
    h('div', { class: 'toolbar' }, h(FindForm, null), h(Filters, { api, filter })),
    h(List, { key: requestsLink(filter), api, filter }),
  ];
}

function FindForm() {
  const [typed, setTyped] = useState('');
  const submit = (event: Event) => {
    event.preventDefault();
    if (typed.trim() !== '') window.location.hash = requestLink(typed.trim());
  };
  return h(
    'form',
    { role: 'search', onSubmit: submit },
    h(LabelledInput, {
      label: 'Find by ID',
      type: 'search',
      value: typed,
      change: setTyped,
      input: { placeholder: 'x-request-id, or the id of an answer', spellcheck: false, maxLength: 200 },
    }),
    h('button', { type: 'submit' }, 'Find'),
  );
}

const outcomes = namedOptions(['completed', 'failed', 'cancelled', 'lost']);

/** Each choice is in the address, so that it can be shared and Back returns to it. */
function Filters({ api, filter }: { api: Api; filter: RequestFilter }) {
  const models = useLoaded((signal) => api.call<{ data: Model[] }>('/v1/models', { signal }), []);
  const keys = useLoaded((signal) => api.call<{ data: Key[] }>('/v1/keys', { signal }), []);
  const set = (name: keyof RequestFilter) => (value: string) => {
    const { [name]: _, ...others } = filter;
    window.location.hash = requestsLink(value === '' ? others : { ...others, [name]: value });
  };
  const modelNames = namedOptions((models.value?.data ?? []).map(({ id }) => id));
  const keyNames = new Map((keys.value?.data ?? []).map(({ id, name }) => [id, name]));
  return h(
    'div',
    { class: 'filters', role: 'group', 'aria-label': 'Filters' },
    h(Filter, { label: 'Outcome', all: 'any outcome', options: outcomes, value: filter.outcome, set: set('outcome') }),
    h(Filter, { label: 'Model', all: 'all models', options: modelNames, value: filter.model, set: set('model') }),
    h(Filter, { label: 'Key', all: 'all keys', options: keyNames, value: filter.key_id, set: set('key_id') }),
  );
}

type FilterProps = {
  label: string;
  all: string;
  options: ReadonlyMap<string, string>;
  value: string | undefined;
  set: (value: string) => void;
};

/** What the address names stays on offer, also if it is none of the options. */
function Filter({ label, all, options, value = '', set }: FilterProps) {
  const named: [string, string][] = value === '' || options.has(value) ? [] : [[value, value]];
  return h(Select<string>, { label, options: new Map([['', all], ...options, ...named]), value, change: set });
}

/** The newest page, and the pages that were asked for. While requests run, the newest page is read again. */
function List({ api, filter }: { api: Api; filter: RequestFilter }) {
  const [wanted, setWanted] = useState(pageSize);
  const loaded = useLoaded((signal) => readRequests(api, { filter, wanted, signal }), [wanted]);
  const isMoving = loaded.value?.data.some(({ state }) => state !== 'ended') ?? false;
  usePolled(loaded, { everyMs: lookEveryMs, active: isMoving && wanted === pageSize });
  return [
    h('div', { class: 'actions' }, h('button', { type: 'button', onClick: loaded.reload }, 'Refresh')),
    h(LoadedView<RequestRows>, {
      loaded,
      what: 'your requests',
      children: ({ data, hasMore }) => [
        data.length === 0
          ? h(
              'p',
              { class: 'empty' },
              Object.keys(filter).length === 0 ? 'You have no requests yet.' : 'No request fits.',
            )
          : h(RequestTable, { caption: 'Requests, latest first', requests: data }),
        hasMore && h('button', { type: 'button', onClick: () => setWanted(wanted + pageSize) }, 'Show more'),
      ],
    }),
  ];
}

type RequestRows = { data: Request[]; hasMore: boolean };
type ListOptions = { filter: RequestFilter; wanted: number; signal: AbortSignal };

/** With a filter a page can be empty while more follow, so it asks for a few more. */
const callsMax = 20;

async function readRequests(api: Api, { filter, wanted, signal }: ListOptions): Promise<RequestRows> {
  const data: Request[] = [];
  let after: string | null = null;
  for (let calls = 0; ; calls += 1) {
    const query = new URLSearchParams({ ...filter, limit: String(wanted - data.length), ...(after && { after }) });
    const page: RequestList = await api.call<RequestList>(`/v1/requests?${query}`, { signal });
    data.push(...page.data);
    after = page.last_id;
    if (!page.has_more || after === null) return { data, hasMore: false };
    if (data.length >= wanted || calls === callsMax) return { data, hasMore: true };
  }
}

const lookAtOneEveryMs = 1_000;

/** One request of the account, by its id or the id of its answer. */
export function RequestPage({ api, id }: { api: Api; id: string }) {
  const loaded = useLoaded((signal) => api.call<Request>(`/v1/requests/${encodeURIComponent(id)}`, { signal }), [id]);
  const isGone = hasLeftNoRecord(loaded);
  const isMoving = loaded.value !== undefined && loaded.value.state !== 'ended' && !isGone;
  usePolled(loaded, { everyMs: lookAtOneEveryMs, active: isMoving });
  return [
    h('p', { class: 'crumb' }, h('a', { href: '#requests' }, 'Requests')),
    h(
      'h1',
      { tabIndex: -1 },
      h('code', null, loaded.value?.id ?? id),
      loaded.value && !isGone && [' ', h(StateBadge, requestState(loaded.value))],
    ),
    h('div', { class: 'actions' }, h(CopyButton, { text: loaded.value?.id ?? id, label: 'Copy the ID' })),
    isGone
      ? h(LeftNoRecord, null)
      : h(LoadedView<Request>, { loaded, what: 'the request', children: (request) => h(RequestDetail, { request }) }),
  ];
}
