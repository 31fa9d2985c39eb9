import { type ComponentChildren, h } from 'preact';
import type { RequestList } from '../../routes/present-request.ts';
import type { Api } from '../api/api.ts';
import { useLoaded } from '../api/use-loaded.ts';
import { type RequestFilter, requestsLink } from '../page/console-route.ts';
import { runbooks } from './code-words.ts';
import { explainRequest, type ShownRequest } from './explain-request.ts';
import { requestsPath } from './request-list.ts';
import { minuteOf, timeText } from './request-range.ts';

type Props = { api: Api; request: ShownRequest; docsUrl: string };

/** What happened to a request in a sentence, what to do about it, and where to read on. */
export function RequestExplanation({ api, request, docsUrl }: Props) {
  const { tone, happened, details, runbook } = explainRequest(request);
  const { code } = request;
  const like = useLike(api, request);
  const links: ComponentChildren[] = [
    code !== null && h('a', { key: 'code', href: `${docsUrl}/errors#${code}` }, 'What this code means'),
    runbook !== undefined &&
      h(
        'a',
        { key: 'runbook', href: `${docsUrl}/runbooks/${runbook}` },
        `Runbook: ${runbooks[runbook].charAt(0).toLowerCase()}${runbooks[runbook].slice(1)}`,
      ),
    like !== undefined &&
      h('a', { key: 'like', href: requestsLink(like.filter) }, `${like.count} more like this in the same minute`),
  ].filter(Boolean);
  return h(
    'section',
    { class: tone === 'bad' ? 'explanation bad' : 'explanation', 'aria-label': 'What happened' },
    h('p', { role: 'status' }, h('strong', null, happened)),
    details.length > 0 && h('p', null, details.join(' ')),
    links.length > 0 &&
      h(
        'p',
        { class: 'links' },
        links.flatMap((link, index) => (index === 0 ? [link] : [' · ', link])),
      ),
  );
}

const countedMax = 100;

/** Requests of the account that ended with the same code in the minute of this one. Undefined if there are none. */
function useLike(api: Api, { id, account, code, created_at: at }: ShownRequest) {
  const { start, end } = minuteOf(at);
  const same = { start: timeText(start), end: timeText(end), ...(code !== null && { code }) };
  const loaded = useLoaded(
    async (signal) => {
      if (code === null) return undefined;
      const query = new URLSearchParams({ ...same, limit: String(countedMax) });
      const path = requestsPath(account === undefined ? {} : { account });
      return api.call<RequestList>(`${path}?${query}`, { signal });
    },
    [id, code],
  );
  const others = loaded.value?.data.filter((each) => each.id !== id).length ?? 0;
  if (others === 0) return undefined;
  const filter: RequestFilter = { ...(account !== undefined && { account }), ...same };
  return { filter, count: loaded.value?.has_more ? `More than ${others}` : String(others) };
}
