import { h } from 'preact';
import type { Batch } from '../../routes/present-batch.ts';
import type { Key } from '../../routes/present-key.ts';
import type { Request, RequestList } from '../../routes/present-request.ts';
import type { LimitsInUse, Quota } from '../../routes/quota.ts';
import type { Api } from '../api/api.ts';
import { BatchSummary } from '../batches/batch-summary.ts';
import type { HeldKeys } from '../keys/held-keys.ts';
import { LoadedView } from '../page/loaded-view.ts';
import { type LoadState, useLoaded, usePolled } from '../page/use-loaded.ts';
import { LimitMeters } from '../panels/limit-meters.ts';
import { MonthCard } from '../panels/month-card.ts';
import { Panel } from '../panels/panel.ts';
import { RequestTable } from '../requests/request-table.ts';
import { FirstSteps } from './first-steps.ts';
import { NextKey } from './next-key.ts';

const requestsShown = 6;
const batchesShown = 3;

/** The home of the console: the month, the limits in use now, and what happened last. */
export function OverviewPage({ api, docsUrl, held }: { api: Api; docsUrl: string; held: HeldKeys }) {
  const quota = useLoaded((signal) => api.call<Quota>('/billing/quota', { signal }), []);
  const limits = useLoaded((signal) => api.call<LimitsInUse>('/billing/limits', { signal }), []);
  const keys = useLoaded((signal) => api.call<{ data: Key[] }>('/v1/keys', { signal }), []);
  const requests = useLoaded((signal) => api.call<RequestList>(`/v1/requests?limit=${requestsShown}`, { signal }), []);
  const batches = useLoaded(
    (signal) => api.call<{ data: Batch[] }>(`/v1/batches?limit=${batchesShown}`, { signal }),
    [],
  );
  for (const part of [quota, limits, requests, batches]) usePolled(part);

  return [
    h('h1', { tabIndex: -1 }, 'Overview'),
    h(FirstSteps, {
      isKnown: [quota, keys, requests].every(({ value }) => value !== undefined),
      hasKey: (keys.value?.data.length ?? 0) > 0,
      hasRequest: (requests.value?.data.length ?? 0) > 0,
      isUsed: (quota.value?.used ?? 0) > 0 || (requests.value?.data.some(isCounted) ?? false),
      holdsKey: held.fresh.length > 0,
      docsUrl,
    }),
    h(
      'div',
      { class: 'panels' },
      h(
        Panel,
        { title: 'This month', more: { href: '#usage', link: 'Usage' } },
        h(LoadedView<Quota>, {
          loaded: quota,
          what: 'your quota',
          children: (value) => h(MonthCard, { quota: value }),
        }),
      ),
      h(
        Panel,
        { title: 'Limits in use now', more: { href: `${docsUrl}/limits`, link: 'About limits' } },
        h(LoadedView<LimitsInUse>, {
          loaded: limits,
          what: 'your limits',
          children: (value) => h(LimitMeters, { limits: value }),
        }),
      ),
      h(
        Panel,
        { title: 'Keys', more: { href: '#keys', link: 'All keys' } },
        h(LoadedView<{ data: Key[] }>, {
          loaded: keys,
          what: 'your keys',
          children: ({ data }) => h(NextKey, { keys: data }),
        }),
      ),
    ),
    h(LastRequests, { requests }),
    h(LastBatches, { batches }),
  ];
}

/** Its tokens count, of whichever month they are. */
function isCounted({ charged_tokens: charged }: Request): boolean {
  return charged !== null;
}

function LastRequests({ requests }: { requests: LoadState<RequestList> }) {
  return h(
    Panel,
    { title: 'Last requests', more: { href: '#requests', link: 'All requests' } },
    h(LoadedView<RequestList>, {
      loaded: requests,
      what: 'your requests',
      children: ({ data }) =>
        data.length === 0
          ? h('p', { class: 'quiet' }, 'No requests yet.')
          : h(RequestTable, { caption: 'Requests, latest first', requests: data, isShort: true }),
    }),
  );
}

function LastBatches({ batches }: { batches: LoadState<{ data: Batch[] }> }) {
  return h(
    Panel,
    { title: 'Last batches', more: { href: '#batches', link: 'All batches' } },
    h(LoadedView<{ data: Batch[] }>, {
      loaded: batches,
      what: 'your batches',
      children: ({ data }) =>
        data.length === 0
          ? h('p', { class: 'quiet' }, 'No batches yet.')
          : h(
              'ul',
              { class: 'rows' },
              data.map((batch) => h('li', { key: batch.id }, h(BatchSummary, { batch }))),
            ),
    }),
  );
}
