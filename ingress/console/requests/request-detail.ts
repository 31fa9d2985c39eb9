import { type ComponentChildren, h } from 'preact';
import type { Request } from '../../routes/present-request.ts';
import type { Api } from '../api/api.ts';
import { ApiFailure } from '../api/api-failure.ts';
import type { LoadState } from '../api/use-loaded.ts';
import { accountLink, batchLink, foundLink, requestsLink } from '../page/console-route.ts';
import { formatCount, formatMs, formatSecond } from '../page/format.ts';
import { CopyButton, ShortId } from '../page/identifiers.ts';
import type { Figure } from '../page/table.ts';
import { AttemptTable } from './attempt-table.ts';
import type { ShownRequest } from './explain-request.ts';
import { RequestExplanation } from './request-explanation.ts';
import { type Phase, phasesOf } from './request-words.ts';

type Props = { api: Api; request: ShownRequest; keyNames: ReadonlyMap<string, string>; docsUrl: string };

/** What became of a request: in words, its timeline, its facts, and its calls of model servers. */
export function RequestDetail({ api, request, keyNames, docsUrl }: Props) {
  const { outcome, duration_ms: durationMs, created_at: at, attempts } = request;
  const phases = phasesOf(request);
  return [
    h(RequestExplanation, { api, request, docsUrl }),
    h(
      'div',
      { class: 'request-parts' },
      h(
        'section',
        { class: 'card', 'aria-labelledby': 'timeline' },
        h('h2', { id: 'timeline' }, 'Timeline'),
        h('p', { class: 'quiet' }, durationMs !== null && `${formatMs(durationMs)}, `, formatSecond(at)),
        durationMs === null || phases.length === 0
          ? h('p', { class: 'quiet' }, 'Its times are known when it has ended.')
          : h(Waterfall, { phases, durationMs }),
      ),
      h(
        'section',
        { class: 'card', 'aria-label': 'Facts' },
        h(
          'dl',
          { class: 'facts' },
          factsOf(request, keyNames).map(([term, value]) =>
            h('div', { key: term }, h('dt', null, term), h('dd', null, value)),
          ),
        ),
      ),
    ),
    attempts.length > 0 && h(AttemptTable, { attempts }),
    outcome !== null &&
      attempts.length === 0 &&
      h('p', { class: 'quiet' }, 'No model server was called: none could be, or the request was ended before.'),
  ];
}

type ActionsProps = {
  id: string;
  /** Of the address of this page. */
  fragment: string;
  /** Where the API has it. */
  url: string;
  children?: ComponentChildren;
};

export function RequestActions({ id, fragment, url, children }: ActionsProps) {
  const address = new URL(fragment, window.location.href).href;
  return h(
    'div',
    { class: 'actions' },
    h(CopyButton, { text: id, label: 'Copy the ID' }),
    h(CopyButton, { text: address, label: 'Copy link' }),
    h(CopyButton, { text: `curl ${url} -H "authorization: Bearer $KEY"`, label: 'Copy as curl' }),
    children,
  );
}

/** Others of the own account with the same value can be listed. */
function factsOf(request: ShownRequest, keyNames: ReadonlyMap<string, string>): Figure[] {
  const { account, model, endpoint, key_id: key, answer_id: answer, batch_id: batch, usage, charged_tokens } = request;
  const listed = (filter: Parameters<typeof requestsLink>[0], words: ComponentChildren) =>
    h('a', { href: requestsLink({ ...(account !== undefined && { account }), ...filter }) }, words);
  const name = keyNames.get(key ?? '');
  const tokens = (count: number) => `${formatCount(count)}${usage?.estimated ? ', counted by the service' : ''}`;
  return [
    ...(account === undefined ? [] : ([['Account', h('a', { href: accountLink(account) }, account)]] as const)),
    ['Key', key === null ? 'sign-in token' : [listed({ key_id: key }, name ?? key), name && [' ', shortKey(key)]]],
    ['Model', listed({ model }, model)],
    ['Endpoint', listed({ endpoint }, endpoint)],
    ...(batch === null
      ? []
      : ([['Batch', h('a', { href: account === undefined ? batchLink(batch) : foundLink(batch) }, batch)]] as const)),
    ...(usage === null
      ? []
      : ([
          ['Prompt tokens', tokens(usage.prompt_tokens)],
          ['Completion tokens', tokens(usage.completion_tokens)],
        ] as const)),
    ...(charged_tokens === null ? [] : ([['Charged', `${formatCount(charged_tokens)} tokens`]] as const)),
    ...(answer === null ? [] : ([['Answer ID', h('code', null, answer)]] as const)),
  ];
}

function shortKey(id: string) {
  return h(ShortId, { id, what: 'key ID' });
}

/** A short part stays visible. */
const visibleShare = 0.008;

/** The parts of a request's life as bars on one scale. The list has all of it in words. */
function Waterfall({ phases, durationMs }: { phases: readonly Phase[]; durationMs: number }) {
  const whole = Math.max(1, durationMs);
  const percent = (share: number) => `${100 * share}%`;
  return h(
    'ol',
    { class: 'waterfall', 'aria-label': 'Timeline' },
    phases.map(({ name, kind, fromMs, toMs }) => {
      const share = Math.max((toMs - fromMs) / whole, visibleShare);
      return h(
        'li',
        { key: name },
        h('span', { class: 'phase' }, name),
        h(
          'svg',
          { width: '100%', height: 14, 'aria-hidden': true },
          h('rect', { class: 'track', width: '100%', height: '100%', rx: 3 }),
          h('rect', {
            class: `bar ${kind}`,
            x: percent(Math.min(fromMs / whole, 1 - share)),
            width: percent(share),
            height: '100%',
            rx: 3,
          }),
        ),
        h('span', { class: 'took' }, kind === 'end' ? `at ${formatMs(toMs)}` : formatMs(toMs - fromMs)),
      );
    }),
  );
}

/** Whether a request that had not ended cannot be found any more. Only one that ends while it waits leaves no record. */
export function hasLeftNoRecord({ value, error }: Pick<LoadState<Pick<Request, 'state'>>, 'value' | 'error'>): boolean {
  return value !== undefined && value.state !== 'ended' && error instanceof ApiFailure && error.status === 404;
}

/** Instead of such a request. */
export function LeftNoRecord() {
  return h('p', { role: 'status' }, 'It was ended while it waited: it has used nothing, and left no record of usage.');
}
