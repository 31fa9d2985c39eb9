import { h } from 'preact';
import type { Request } from '../../routes/present-request.ts';
import type { Api } from '../api/api.ts';
import { CopyButton } from '../controls/copy-button.ts';
import { StateBadge } from '../controls/state-badge.ts';
import { LoadedView } from '../page/loaded-view.ts';
import { useLoaded, usePolled } from '../page/use-loaded.ts';
import { hasLeftNoRecord, LeftNoRecord } from './left-no-record.ts';
import { RequestDetail } from './request-detail.ts';
import { requestState } from './request-state.ts';

const lookEveryMs = 1_000;

/** One request of the account, by its id or the id of its answer. */
export function RequestPage({ api, id }: { api: Api; id: string }) {
  const loaded = useLoaded((signal) => api.call<Request>(`/v1/requests/${encodeURIComponent(id)}`, { signal }), [id]);
  const isGone = hasLeftNoRecord(loaded);
  const isMoving = loaded.value !== undefined && loaded.value.state !== 'ended' && !isGone;
  usePolled(loaded, { everyMs: lookEveryMs, active: isMoving });
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
