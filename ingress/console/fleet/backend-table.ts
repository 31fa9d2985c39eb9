import { h } from 'preact';
import { formatCount, formatMs, formatShare } from '../page/format.ts';
import { StateBadge } from '../page/icons.ts';
import { type Column, Table } from '../page/table.ts';
import { type BackendDialogs, type FleetParts, recentOf, useBackendDialogs } from './backend-dialog.ts';
import { BackendCell } from './backend-matrix.ts';
import { type Backend, backendState, type Health } from './backend-state.ts';

/** Each backend with its calls; its models are folded where they stand alike. */
export function BackendTable(parts: FleetParts) {
  const { fleet, recent } = parts;
  const dialogs = useBackendDialogs(parts);
  const shares: Column<Backend> = {
    title: 'Shares',
    cell: ({ shares }) => (shares === null ? '–' : formatCount(shares)),
    holds: 'number',
    phone: 'none',
  };
  const hasShares = fleet.backends.some((backend) => backend.shares !== null);
  return [
    h(Table<Backend>, {
      caption: 'Backends; calls of about the last minute, and the share of their prompts that was cached',
      rows: fleet.backends,
      rowKey: ({ backend }) => backend,
      columns: [
        {
          title: 'Backend',
          cell: (backend) => h(BackendCell, { backend }),
          sortBy: ({ backend }) => backend,
          phone: 'first',
        },
        {
          title: 'State',
          cell: (backend) => h(States, { backend, recent, dialogs }),
          holds: 'text',
          phone: 'second',
        },
        ...(hasShares ? [shares] : []),
        ...numbers,
        { title: 'Change', cell: (backend) => h(PauseButton, { backend, pause: dialogs.pause }), phone: 'end' },
      ],
    }),
    dialogs.shown,
  ];
}

const numbers: readonly Column<Backend>[] = [
  {
    title: 'First token',
    cell({ models }) {
      const times = models.flatMap(({ first_token_ms: ms }) => ms ?? []);
      return times.length === 0 ? '–' : formatMs(Math.max(...times));
    },
    holds: 'number',
    phone: 'none',
  },
  {
    title: 'Cached',
    cell: (backend) =>
      formatShare(
        sum(backend, ({ cached_tokens }) => cached_tokens),
        sum(backend, ({ prompt_tokens }) => prompt_tokens),
      ),
    holds: 'number',
    phone: 'none',
  },
  countColumn('Answered', ({ answered }) => answered),
  countColumn('Failed', ({ failed }) => failed),
];

type StatesProps = { backend: Backend; recent: FleetParts['recent']; dialogs: BackendDialogs };

/** Each state with the models in it; a click shows the last error. */
function States({ backend, recent, dialogs }: StatesProps) {
  const { backend: name, models } = backend;
  if (models.length === 0) return 'no worker calls it';
  const states = models.map((health) => ({
    model: health.model,
    ...backendState(backend, health, recentOf(recent, name, health.model)),
  }));
  const alike = [...Map.groupBy(states, ({ state, tone }) => `${state} ${tone}`).values()];
  return h(
    'ul',
    { class: 'states' },
    alike.flatMap((same) => {
      const [first] = same;
      if (first === undefined) return [];
      const { model, state, tone } = first;
      return h(
        'li',
        { key: state },
        h(
          'button',
          {
            type: 'button',
            class: 'bare',
            'aria-haspopup': 'dialog',
            'aria-label': `${name} for ${model}: ${state}`,
            onClick: () => dialogs.open(name, model),
          },
          h(StateBadge, { state, tone }),
        ),
        alike.length === 1 && same.length > 1 ? `all ${same.length} models` : same.map((each) => each.model).join(', '),
      );
    }),
  );
}

function PauseButton({ backend: { backend, paused }, pause }: { backend: Backend; pause: (backend: string) => void }) {
  const action = paused === null ? 'Pause' : 'Resume';
  return h('button', { type: 'button', onClick: () => pause(backend), 'aria-label': `${action} ${backend}` }, action);
}

function countColumn(title: string, countOf: (health: Health) => number): Column<Backend> {
  return {
    title,
    cell: (backend) => formatCount(sum(backend, countOf)),
    holds: 'number',
    sortBy: (backend) => sum(backend, countOf),
    phone: 'none',
  };
}

function sum({ models }: Backend, countOf: (health: Health) => number): number {
  return models.reduce((total, health) => total + countOf(health), 0);
}
