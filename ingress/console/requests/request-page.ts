import { h } from 'preact';
import type { Request } from '../../requests/request-schemas.ts';
import type { Api } from '../api/api.ts';
import { CopyButton } from '../controls/copy-button.ts';
import { StateBadge } from '../controls/state-badge.ts';
import { LoadedView } from '../page/loaded-view.ts';
import { useLoaded, useRepeated } from '../page/use-loaded.ts';
import { RequestDetail } from './request-detail.ts';
import { requestState } from './request-state.ts';

const lookEveryMs = 1_000;

/** One request of the account, by its id or the id of its answer. */
export function RequestPage({ api, id }: { api: Api; id: string }) {
  const loaded = useLoaded((signal) => api.call<Request>(`/v1/requests/${encodeURIComponent(id)}`, { signal }), [id]);
  const isMoving = loaded.value !== undefined && loaded.value.state !== 'ended';
  useRepeated(loaded.reload, { everyMs: lookEveryMs, active: isMoving && !loaded.loading });
  return [
    h('p', { class: 'crumb' }, h('a', { href: '#requests' }, 'Requests')),
    h(
      'h1',
      { tabIndex: -1 },
      h('code', null, loaded.value?.id ?? id),
      loaded.value && [' ', h(StateBadge, requestState(loaded.value))],
    ),
    h('div', { class: 'actions' }, h(CopyButton, { text: loaded.value?.id ?? id, label: 'Copy the ID' })),
    h(LoadedView<Request>, { loaded, what: 'the request', children: (request) => h(RequestDetail, { request }) }),
  ];
}
