import { h } from 'preact';
import { formatMs } from '../page/format.ts';
import { type Column, Table } from '../page/table.ts';
import { type BackendDialogs, type FleetParts, recentOf, useBackendDialogs } from './backend-dialog.ts';
import { type Backend, backendState, causeWords, type Health, type RecentCalls, slotsOf } from './backend-state.ts';

type Props = FleetParts & {
  /** The time that `recent` is of. */
  recentSeconds: number;
};

/** Each backend with each model, in words: a click shows the last error. */
export function BackendMatrix(parts: Props) {
  const { fleet, recent, recentSeconds } = parts;
  const dialogs = useBackendDialogs(parts);
  const models = [...new Set(fleet.pools.flatMap((pool) => pool.models.map(({ model }) => model)))];
  const columns: Column<Backend>[] = models.map((model) => ({
    title: model,
    cell(backend) {
      const health = backend.models.find((each) => each.model === model);
      if (health === undefined) return h('span', { class: 'quiet' }, '–');
      return h(Cell, { backend, health, recent: recentOf(recent, backend.backend, model), recentSeconds, dialogs });
    },
  }));
  return [
    h(Table<Backend>, {
      caption: 'Backends by model: calls a second and first token (p95) of the last 15 minutes',
      rows: fleet.backends,
      rowKey: ({ backend }) => backend,
      columns: [{ title: 'Backend', cell: (backend) => h(BackendCell, { backend }) }, ...columns],
    }),
    dialogs.shown,
  ];
}

/** A backend with its calls at once. */
export function BackendCell({ backend }: { backend: Backend }) {
  const { backend: name, location, weight } = backend;
  return h(
    'div',
    { class: 'backend' },
    h('strong', null, name),
    h('span', { class: 'quiet' }, `${location}${weight === 1 ? '' : `, weight ${weight}`}`),
    h(SlotsBar, { backend }),
  );
}

/** The part of its calls at once that is taken, with the number. */
function SlotsBar({ backend }: { backend: Backend }) {
  const { calls, limit, per_worker: isPerWorker } = backend;
  return [
    h('span', { class: 'quiet' }, slotsOf(backend)),
    limit !== null && !isPerWorker && h(Bar, { part: calls, of: limit }),
  ];
}

type BarProps = {
  part: number;
  of: number;
  /** Whether the whole is a limit, which is shown when it is near. */
  isLimit?: boolean;
};

/** A part of a whole; the number is beside it. */
export function Bar({ part, of: whole, isLimit = true }: BarProps) {
  const share = whole === 0 ? 0 : Math.min(1, part / whole);
  return h(
    'svg',
    { class: 'meter', width: '100%', height: 6, 'aria-hidden': true },
    h('rect', { class: 'track', width: '100%', height: '100%', rx: 3 }),
    h('rect', { class: isLimit && share >= 0.9 ? 'bar full' : 'bar', width: `${100 * share}%`, height: '100%', rx: 3 }),
  );
}

type CellProps = {
  backend: Backend;
  health: Health;
  recent: RecentCalls | undefined;
  recentSeconds: number;
  dialogs: BackendDialogs;
};

function Cell({ backend, health, recent, recentSeconds, dialogs }: CellProps) {
  const { state, tone } = backendState(backend, health, recent);
  return h(
    'button',
    {
      type: 'button',
      class: `cell ${tone}`,
      'aria-haspopup': 'dialog',
      onClick: () => dialogs.open(backend.backend, health.model),
    },
    h('span', { class: 'unseen' }, `${backend.backend} for ${health.model}: `),
    h('strong', null, state),
    h('span', null, ' ', detailOf(health, recent, recentSeconds)),
  );
}

function detailOf({ failing_since: since, last_failure: failure }: Health, recent: RecentCalls | undefined, s: number) {
  if (since !== null && failure !== null) return causeWords(failure);
  if (recent === undefined || recent.answered + recent.failed === 0) return 'no calls';
  const { first_token_ms: firstToken } = recent;
  return `${formatRate((recent.answered + recent.failed) / s)}${firstToken === null ? '' : ` · ${formatMs(firstToken.p95)}`}`;
}

/** Of calls or requests: `6/s`, `0.25/s`. Rarer ones are counted by the minute. */
export function formatRate(perSecond: number): string {
  if (perSecond >= 10) return `${Math.round(perSecond)}/s`;
  if (perSecond >= 0.1) return `${perSecond.toFixed(1)}/s`;
  return perSecond === 0 ? '0/s' : `${(60 * perSecond).toFixed(1)}/min`;
}
