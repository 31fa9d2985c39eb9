import { h } from 'preact';
import type { Request } from '../../routes/present-request.ts';
import { ApiFailure } from '../api/api-failure.ts';
import type { LoadState } from '../api/use-loaded.ts';
import { requestsLink } from '../page/console-route.ts';
import { formatCount, formatMs, formatTime } from '../page/format.ts';
import { StateBadge } from '../page/icons.ts';
import { type Figure, Figures, Table } from '../page/table.ts';
import { outcomeWords, type Phase, phasesOf } from './request-words.ts';

/** A call of a model server; its name is only for operators. */
type ShownAttempt = Request['attempts'][number] & { backend?: string | null };
type ShownRequest = Omit<Request, 'attempts'> & { attempts: ShownAttempt[] };

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

/** A short part stays visible. */
const visibleShare = 0.004;

/** The parts of a request's life as bars on one scale. The list has all of it in words. */
function Waterfall({ phases, durationMs }: { phases: readonly Phase[]; durationMs: number }) {
  const whole = Math.max(1, durationMs);
  const percent = (ms: number) => `${(100 * ms) / whole}%`;
  return h(
    'ol',
    { class: 'waterfall', 'aria-label': 'Timeline' },
    phases.map(({ name, kind, fromMs, toMs }) =>
      h(
        'li',
        { key: name },
        h('span', { class: 'phase' }, name),
        h(
          'svg',
          { width: '100%', height: 14, 'aria-hidden': true },
          h('rect', { class: 'track', width: '100%', height: '100%', rx: 3 }),
          h('rect', {
            class: `bar ${kind}`,
            x: percent(fromMs),
            width: percent(Math.max(toMs - fromMs, whole * visibleShare)),
            height: '100%',
            rx: 3,
          }),
        ),
        h('span', { class: 'took' }, formatMs(toMs - fromMs)),
      ),
    ),
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
