import { type ComponentChildren, h } from 'preact';
import type { Request } from '../../routes/present-request.ts';
import { StateBadge } from '../controls/state-badge.ts';
import { Table } from '../controls/table.ts';
import { formatCount, formatMs, formatTime } from '../page/format.ts';
import { requestsLink } from '../page/route.ts';
import { outcomeWords, phasesOf } from './request-state.ts';
import { Waterfall } from './waterfall.ts';

/** A call of a model server; its name is only for operators. */
export type ShownAttempt = Request['attempts'][number] & { backend?: string | null };
export type ShownRequest = Omit<Request, 'attempts'> & { attempts: ShownAttempt[] };

/** What became of a request: how it ended, its timeline, its calls of model servers, its tokens and its charge. */
export function RequestDetail({ request, isOwn = true }: { request: ShownRequest; isOwn?: boolean }) {
  const { outcome, duration_ms: durationMs, attempts } = request;
  const phases = phasesOf(request);
  return [
    h('p', { role: 'status' }, outcome === null ? 'It has not ended yet.' : outcomeWords[outcome]),
    h('h2', null, 'Timeline'),
    durationMs === null || phases.length === 0
      ? h('p', { class: 'empty' }, 'Its times are known when it has ended.')
      : h(Waterfall, { phases, durationMs }),
    attempts.length > 0 && h(AttemptTable, { attempts }),
    outcome !== null &&
      attempts.length === 0 &&
      h('p', null, 'No model server was called: none could be, or the request was ended before.'),
    h('h2', null, 'Tokens and charge'),
    h(Figures, { figures: tokenFigures(request) }),
    h('h2', null, 'Request'),
    h(Figures, { figures: requestFigures(request, isOwn) }),
  ];
}

type Figure = [term: string, value: ComponentChildren];

function Figures({ figures }: { figures: readonly Figure[] }) {
  return h(
    'dl',
    { class: 'figures' },
    figures.map(([term, value]) => h('div', { key: term }, h('dt', null, term), h('dd', null, value))),
  );
}

function tokenFigures({ usage, charged_tokens: charged }: ShownRequest): Figure[] {
  const count = (tokens: number | null | undefined) => (tokens == null ? '–' : formatCount(tokens));
  return [
    ['Prompt tokens', count(usage?.prompt_tokens)],
    ['Completion tokens', count(usage?.completion_tokens)],
    ['Total tokens', count(usage?.total_tokens)],
    ['Counted by', usage === null ? '–' : usage.estimated ? 'the service' : 'the model server'],
    ['Charged', charged === null ? '–' : `${formatCount(charged)} tokens`],
  ];
}

/** Others of the own account with the same value can be listed. */
function requestFigures(request: ShownRequest, isOwn: boolean): Figure[] {
  const { model, endpoint, created_at: at, key_id: key, answer_id: answer } = request;
  return [
    ['Model', isOwn ? h('a', { href: requestsLink({ model }) }, model) : model],
    ['Endpoint', endpoint],
    ['Admitted', formatTime(at)],
    ['Key', key === null ? 'sign-in token' : isOwn ? h('a', { href: requestsLink({ key_id: key }) }, key) : key],
    ['Answer ID', answer ?? '–'],
  ];
}

function AttemptTable({ attempts }: { attempts: readonly ShownAttempt[] }) {
  const rows = attempts.map((attempt, index) => ({ ...attempt, number: index + 1 }));
  const hasNames = attempts.some(({ backend }) => backend !== undefined);
  return h(Table<(typeof rows)[number]>, {
    caption: 'Calls of model servers, in order',
    rows,
    rowKey: ({ number }) => String(number),
    columns: [
      { title: 'Attempt', cell: ({ number }) => number },
      ...(hasNames ? [{ title: 'Backend', cell: ({ backend }: ShownAttempt) => backend ?? 'not known any more' }] : []),
      { title: 'Location', cell: ({ location }) => location ?? '–' },
      {
        title: 'Outcome',
        cell: ({ outcome }) =>
          h(StateBadge, { state: outcome.replaceAll('_', ' '), tone: outcome === 'answered' ? 'good' : 'bad' }),
      },
      { title: 'Duration', holds: 'number', cell: ({ ms }) => (ms === null ? '–' : formatMs(ms)) },
    ],
  });
}
