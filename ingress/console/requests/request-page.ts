import { h } from 'preact';
import type { Request } from '../../routes/present-request.ts';
import type { Api } from '../api/api.ts';
import { useLoaded, usePolled } from '../api/use-loaded.ts';
import { requestLink } from '../page/console-route.ts';
import { StateBadge } from '../page/icons.ts';
import { LoadedView } from '../page/loaded-view.ts';
import { hasLeftNoRecord, LeftNoRecord, RequestActions, RequestDetail } from './request-detail.ts';
import { requestState } from './request-words.ts';
import { useKeyNames } from './requests-page.ts';

const lookEveryMs = 1_000;

type Props = { api: Api; id: string; baseUrl: string; docsUrl: string };

/** One request of the account, by its id or the id of its answer. */
export function RequestPage({ api, id, baseUrl, docsUrl }: Props) {
  const loaded = useLoaded((signal) => api.call<Request>(`/v1/requests/${encodeURIComponent(id)}`, { signal }), [id]);
  const keyNames = useKeyNames(api, undefined);
  const { value } = loaded;
  const isGone = hasLeftNoRecord(loaded);
  const isMoving = value !== undefined && value.state !== 'ended' && !isGone;
  usePolled(loaded, { everyMs: lookEveryMs, active: isMoving });
  const shownId = value?.id ?? id;
  return [
    h('p', { class: 'crumb' }, h('a', { href: '#requests' }, 'Requests')),
    h('h1', { tabIndex: -1 }, h('code', null, shownId), value && !isGone && [' ', h(StateBadge, requestState(value))]),
    h(RequestActions, { id: shownId, fragment: requestLink(shownId), url: `${baseUrl}/v1/requests/${shownId}` }),
    isGone
      ? h(LeftNoRecord, null)
      : h(LoadedView<Request>, {
          loaded,
          what: 'the request',
          lines: 14,
          children: (request) => h(RequestDetail, { api, request, keyNames, docsUrl }),
        }),
  ];
}
