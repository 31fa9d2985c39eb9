import { h } from 'preact';
import { useState } from 'preact/hooks';
import type { OperatorRequest } from '../../routes/present-request.ts';
import type { Api } from '../api/api.ts';
import { LoadedView } from '../page/loaded-view.ts';
import { foundLink } from '../page/route.ts';
import type { NewestItems } from '../page/use-newest.ts';
import { Panel } from '../panels/panel.ts';
import { RequestTable } from '../requests/request-table.ts';
import { AskToEnd, EndButton } from './end-request.ts';

type Props = { api: Api; requests: NewestItems<OperatorRequest>; onAsk: () => void; onEnded: (id: string) => void };

/** Requests of an account that run, and its last ones. Those that run can be ended. */
export function AccountRequests({ api, requests, onAsk, onEnded }: Props) {
  const [asked, ask] = useState<OperatorRequest>();
  const open = (request: OperatorRequest) => {
    onAsk();
    ask(request);
  };
  return h(
    Panel,
    { title: 'Requests' },
    h(LoadedView<NonNullable<typeof requests.value>>, {
      loaded: requests,
      what: 'its requests',
      children: ({ data, has_more }) =>
        data.length === 0
          ? h('p', { class: 'quiet' }, 'It has sent no requests.')
          : [
              h(RequestTable<OperatorRequest>, {
                caption: 'Requests, latest first',
                requests: data,
                isShort: true,
                linkOf: foundLink,
                last: { title: 'Change', cell: (request) => h(EndButton, { request, ask: () => open(request) }) },
              }),
              has_more &&
                h(
                  'div',
                  { class: 'actions' },
                  h('button', { type: 'button', onClick: requests.showMore }, 'Show more requests'),
                ),
            ],
    }),
    asked !== undefined &&
      h(AskToEnd, { api, request: asked, onEnded: () => onEnded(asked.id), close: () => ask(undefined) }),
  );
}
