import { h } from 'preact';
import { useState } from 'preact/hooks';
import type { OperatorRequest } from '../../routes/present-request.ts';
import { AskToEnd, EndButton } from '../account/end-request.ts';
import type { Api } from '../api/api.ts';
import { CopyButton } from '../controls/copy-button.ts';
import { StateBadge } from '../controls/state-badge.ts';
import { LoadedView } from '../page/loaded-view.ts';
import { accountLink } from '../page/route.ts';
import { useLoaded, usePolled } from '../page/use-loaded.ts';
import { hasLeftNoRecord, LeftNoRecord } from '../requests/left-no-record.ts';
import { RequestDetail } from '../requests/request-detail.ts';
import { requestState } from '../requests/request-state.ts';

const lookEveryMs = 1_000;

/** A request of any account, with the backends that were called. One that runs can be ended. */
export function AnyRequestPage({ api, id }: { api: Api; id: string }) {
  const path = `/admin/requests/${encodeURIComponent(id)}`;
  const loaded = useLoaded((signal) => api.call<OperatorRequest>(path, { signal }), [path]);
  const [isAsking, setAsking] = useState(false);
  const { value } = loaded;
  const isGone = hasLeftNoRecord(loaded);
  const isMoving = value !== undefined && value.state !== 'ended' && !isGone;
  usePolled(loaded, { everyMs: lookEveryMs, active: isMoving });
  return [
    h('p', { class: 'crumb' }, h('a', { href: '#find' }, 'Find')),
    h('h1', { tabIndex: -1 }, h('code', null, id), value && !isGone && [' ', h(StateBadge, requestState(value))]),
    h(
      'div',
      { class: 'actions' },
      h(CopyButton, { text: id, label: 'Copy the ID' }),
      isMoving && h(EndButton, { request: value, ask: () => setAsking(true) }),
    ),
    value && h('p', null, 'Account ', h('a', { href: accountLink(value.account) }, value.account)),
    isGone
      ? h(LeftNoRecord, null)
      : h(LoadedView<OperatorRequest>, {
          loaded,
          what: 'the request',
          children: (request) => h(RequestDetail, { request, isOwn: false }),
        }),
    isAsking && value && h(AskToEnd, { api, request: value, onEnded: loaded.reload, close: () => setAsking(false) }),
  ];
}
