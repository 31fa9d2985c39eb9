import { h } from 'preact';
import { useState } from 'preact/hooks';
import type { OperatorRequest } from '../../requests/request-schemas.ts';
import { AskToEnd, EndButton } from '../account/end-request.ts';
import type { Api } from '../api/api.ts';
import { ApiFailure } from '../api/api-failure.ts';
import { CopyButton } from '../controls/copy-button.ts';
import { StateBadge } from '../controls/state-badge.ts';
import { LoadedView } from '../page/loaded-view.ts';
import { accountLink } from '../page/route.ts';
import { useLoaded, useRepeated } from '../page/use-loaded.ts';
import { RequestDetail } from '../requests/request-detail.ts';
import { requestState } from '../requests/request-state.ts';

const lookEveryMs = 1_000;

/** A request of any account, with the backends that were called. One that runs can be ended. */
export function AnyRequestPage({ api, id }: { api: Api; id: string }) {
  const path = `/admin/requests/${encodeURIComponent(id)}`;
  const loaded = useLoaded((signal) => api.call<OperatorRequest>(path, { signal }), [path]);
  const [asking, setAsking] = useState<'no' | 'asks' | 'ended'>('no');
  const { value, error } = loaded;
  const isMoving = value !== undefined && value.state !== 'ended' && error === undefined;
  useRepeated(loaded.reload, { everyMs: lookEveryMs, active: isMoving && !loaded.loading });
  const isGone = asking === 'ended' && error instanceof ApiFailure && error.status === 404;
  const onEnded = () => {
    setAsking('ended');
    loaded.reload();
  };
  return [
    h('p', { class: 'crumb' }, h('a', { href: '#find' }, 'Find')),
    h('h1', { tabIndex: -1 }, h('code', null, id), value && !isGone && [' ', h(StateBadge, requestState(value))]),
    h(
      'div',
      { class: 'actions' },
      h(CopyButton, { text: id, label: 'Copy the ID' }),
      isMoving && h(EndButton, { request: value, ask: () => setAsking('asks') }),
    ),
    value && h('p', null, 'Account ', h('a', { href: accountLink(value.account) }, value.account)),
    isGone
      ? h('p', { role: 'status' }, 'It was ended while it waited: it has used nothing, and left no record of usage.')
      : h(LoadedView<OperatorRequest>, {
          loaded,
          what: 'the request',
          children: (request) => h(RequestDetail, { request, isOwn: false }),
        }),
    asking === 'asks' &&
      value &&
      h(AskToEnd, {
        ...{ api, request: value, onEnded },
        close: () => setAsking((before) => (before === 'ended' ? before : 'no')),
      }),
  ];
}
