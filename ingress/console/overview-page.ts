import { type ComponentChildren, h } from 'preact';
import type { Batch } from '../routes/present-batch.ts';
import type { Key } from '../routes/present-key.ts';
import type { Request, RequestList } from '../routes/present-request.ts';
import type { LimitsInUse, Quota } from '../routes/quota.ts';
import type { Api } from './api/api.ts';
import { type LoadState, useLoaded, usePolled } from './api/use-loaded.ts';
import { BatchSummary } from './batches/batch-detail.ts';
import type { HeldKeys } from './keys/held-keys.ts';
import { restOf, shownState } from './keys/key-state.ts';
import { formatRest } from './page/format.ts';
import { Icon } from './page/icons.ts';
import { LoadedView, Panel } from './page/loaded-view.ts';
import { RequestTable } from './requests/request-table.ts';
import { LimitsPanel, MonthPanel } from './usage/quota-view.ts';

const requestsShown = 6;
const batchesShown = 3;

type OverviewProps = { api: Api; docsUrl: string; held: HeldKeys; isOperator: boolean };

/** The home of the console: the month, the limits in use now, and what happened last. */
export function OverviewPage({ api, docsUrl, held, isOperator }: OverviewProps) {
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
      // Operators work with the accounts of others.
      isKnown: !isOperator && [quota, keys, requests].every(({ value }) => value !== undefined),
      hasKey: (keys.value?.data.length ?? 0) > 0,
      hasRequest: (requests.value?.data.length ?? 0) > 0,
      isUsed: (quota.value?.used ?? 0) > 0 || (requests.value?.data.some(isCounted) ?? false),
      holdsKey: held.fresh.length > 0,
      docsUrl,
    }),
    h(
      'div',
      { class: 'panels' },
      h(MonthPanel, { loaded: quota, what: 'your quota', more: { href: '#usage', link: 'Usage' } }),
      h(LimitsPanel, {
        loaded: limits,
        what: 'your limits',
        more: { href: `${docsUrl}/limits`, link: 'About limits' },
      }),
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

/** How many keys can be used, and which of them ends first. */
function NextKey({ keys }: { keys: readonly Key[] }) {
  const now = Date.now();
  const usable = keys.filter((key) => ['active', 'in grace'].includes(shownState(key, now)));
  const [next] = usable
    .flatMap((key) => {
      const restMs = restOf(key, now);
      return restMs === undefined ? [] : [{ name: key.name, restMs }];
    })
    .toSorted((one, other) => one.restMs - other.restMs);
  return [
    h(
      'p',
      { class: 'headline' },
      h('strong', null, String(usable.length)),
      usable.length === 1 ? ' active key' : ' active keys',
    ),
    h(
      'p',
      { class: next !== undefined && next.restMs < warnedMs ? 'warning' : 'quiet' },
      next === undefined
        ? usable.length === 0
          ? 'No program can call the API as you.'
          : 'None of them expires.'
        : `"${next.name}" expires next, in ${formatRest(next.restMs)}.`,
    ),
  ];
}

const warnedMs = 7 * 86_400_000;

type Props = {
  /** Whether it is known yet what was done. */
  isKnown: boolean;
  hasKey: boolean;
  hasRequest: boolean;
  isUsed: boolean;
  /** Whether a key was just created here, which "Try it" starts with. */
  holdsKey: boolean;
  docsUrl: string;
};

/** What a new account does first. Disappears when all of it is done. */
function FirstSteps({ isKnown, hasKey, hasRequest, isUsed, holdsKey, docsUrl }: Props) {
  const isStored = hasRequest && isUsed;
  if (!isKnown || (hasKey && isStored)) return null;
  const isUsable = hasKey && !hasRequest;
  return h(
    'section',
    { class: 'card steps', 'aria-labelledby': 'first-steps' },
    h('h2', { id: 'first-steps' }, 'First steps'),
    h(
      'ol',
      null,
      h(
        Step,
        { isDone: hasKey, title: 'Create a key' },
        'Your programs call the API with it.',
        !hasKey && h('a', { class: 'button primary', href: '#keys' }, 'Create a key'),
      ),
      h(
        Step,
        { isDone: hasRequest, title: 'Send a first request' },
        'From this page, or from a program.',
        isUsable &&
          h('a', { class: 'button primary', href: '#try-it' }, holdsKey ? 'Try it with your new key' : 'Try it'),
        h('a', { href: `${docsUrl}/quick-start` }, 'Quick start'),
      ),
      h(
        Step,
        { isDone: isStored, title: 'See it in your usage' },
        'A request is counted a few seconds after it ends.',
        hasRequest && h('a', { href: '#usage' }, 'Usage'),
      ),
    ),
  );
}

type StepProps = { isDone: boolean; title: string; children?: ComponentChildren };

function Step({ isDone, title, children }: StepProps) {
  const [words, ...actions] = [children].flat();
  return h(
    'li',
    { class: isDone ? 'step done' : 'step' },
    h(Icon, { name: isDone ? 'done' : 'todo' }),
    h(
      'div',
      null,
      h('strong', null, title),
      isDone && h('span', { class: 'unseen' }, ' (done)'),
      h('p', { class: 'quiet' }, words),
    ),
    h('div', { class: 'actions tight' }, actions),
  );
}
