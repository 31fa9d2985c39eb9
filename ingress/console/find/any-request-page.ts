import { h } from 'preact';
import type { OperatorRequest } from '../../requests/request-schemas.ts';
import { EndRequest } from '../account/end-request.ts';
import type { Api } from '../api/api.ts';
import { CopyButton } from '../controls/copy-button.ts';
import { StateBadge } from '../controls/state-badge.ts';
import { LoadedView } from '../page/loaded-view.ts';
import { accountLink } from '../page/route.ts';
import { useLoaded, useRepeated } from '../page/use-loaded.ts';
import { RequestDetail } from '../requests/request-detail.ts';
import { requestState } from '../requests/request-state.ts';

const lookEveryMs = 1_000;

/** A request of any account, with the backends that were called. */
export function AnyRequestPage({ api, id }: { api: Api; id: string }) {
  const path = `/admin/requests/${encodeURIComponent(id)}`;
  const loaded = useLoaded((signal) => api.call<OperatorRequest>(path, { signal }), [path]);
  const { value } = loaded;
  const isMoving = value !== undefined && value.state !== 'ended';
  useRepeated(loaded.reload, { everyMs: lookEveryMs, active: isMoving && !loaded.loading });
  return [
    h('p', { class: 'crumb' }, h('a', { href: '#find' }, 'Find')),
    h('h1', { tabIndex: -1 }, h('code', null, id), value && [' ', h(StateBadge, requestState(value))]),
    h(
      'div',
      { class: 'actions' },
      h(CopyButton, { text: id, label: 'Copy the ID' }),
      value && h(EndRequest, { api, request: value, onEnded: loaded.reload }),
    ),
    value && h('p', null, 'Account ', h('a', { href: accountLink(value.account) }, value.account)),
    h(LoadedView<OperatorRequest>, {
      loaded,
      what: 'the request',
      children: (request) => h(RequestDetail, { request, isOwn: false }),
    }),
  ];
}
