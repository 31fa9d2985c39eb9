import { type ComponentChildren, h } from 'preact';
import { useEffect, useId, useRef, useState } from 'preact/hooks';
import type { FleetView } from '../../routes/fleet.ts';
import type { Api } from '../api/api.ts';
import { foundLink } from '../page/console-route.ts';
import { formatMs, formatSecond, formatTime } from '../page/format.ts';
import { StateBadge } from '../page/icons.ts';
import { type Figure, Figures } from '../page/table.ts';
import { TimeAgo } from '../page/time-ago.ts';
import {
  type Backend,
  backendState,
  causeWords,
  type Health,
  type RecentCalls,
  runbookOf,
  slotsOf,
} from './backend-state.ts';
import { PauseDialog } from './pause-dialog.ts';

/** What the parts of a page need to show backends. `recent`: calls of the last minutes. */
export type FleetParts = {
  fleet: FleetView;
  recent: readonly RecentCalls[];
  api: Api;
  docsUrl: string;
  reload: () => void;
};

type DialogGoal = { backend: string; model?: string };

export type BackendDialogs = {
  /** Shows how a backend stands for a model. */
  open: (backend: string, model: string) => void;
  /** Asks for its pause, or for the end of it. */
  pause: (backend: string) => void;
  shown: ComponentChildren;
};

/** The dialogs about a backend. */
export function useBackendDialogs({ fleet, recent, api, docsUrl, reload }: FleetParts): BackendDialogs {
  const [asked, ask] = useState<DialogGoal>();
  const backend = fleet.backends.find((each) => each.backend === asked?.backend);
  const health = backend?.models.find(({ model }) => model === asked?.model);
  const close = () => ask(undefined);
  const pause = (name: string) => ask({ backend: name });
  const common = { key: JSON.stringify(asked), close };
  return {
    open: (name, model) => ask({ backend: name, model }),
    pause,
    shown:
      backend === undefined
        ? null
        : health === undefined
          ? h(PauseDialog, { ...common, backend, api, done: reload })
          : h(BackendDialog, {
              ...common,
              backend,
              health,
              recent: recentOf(recent, backend.backend, health.model),
              docsUrl,
              pause: () => pause(backend.backend),
            }),
  };
}

export function recentOf(recent: readonly RecentCalls[], backend: string, model: string): RecentCalls | undefined {
  return recent.find((each) => each.backend === backend && each.model === model);
}

type Props = {
  backend: Backend;
  health: Health;
  recent: RecentCalls | undefined;
  docsUrl: string;
  pause: () => void;
  close: () => void;
};

/** How a backend stands for a model, and why its last call that failed did so. */
function BackendDialog({ backend, health, recent, docsUrl, pause, close }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  const titleId = useId();
  useEffect(() => dialog.current?.showModal(), []);
  const { last_failure: failure } = health;
  const isPaused = backend.paused !== null;
  return h(
    'dialog',
    {
      ref: dialog,
      'aria-labelledby': titleId,
      onClose: close,
      onClick: (event: Event) => event.target === dialog.current && dialog.current?.close(), // beside it
    },
    h(
      'h2',
      { id: titleId },
      `${backend.backend} for ${health.model} `,
      h(StateBadge, backendState(backend, health, recent)),
    ),
    h(Figures, { figures: stateFigures(backend, health) }),
    h('h3', null, 'Last call that failed'),
    failure === null
      ? h('p', { class: 'quiet' }, 'None in the last hour.')
      : h(Figures, { figures: failureFigures(failure) }),
    h(
      'div',
      { class: 'actions' },
      h('a', { class: 'button', href: `${docsUrl}/runbooks/${runbookOf(backend, health)}` }, 'Runbook'),
      h('button', { type: 'button', class: isPaused ? '' : 'danger', onClick: pause }, isPaused ? 'Resume' : 'Pause'),
      h('button', { type: 'button', class: 'primary', onClick: () => dialog.current?.close() }, 'Close'),
    ),
  );
}

function stateFigures(backend: Backend, { failing_since: since, answered, failed, suspects, ...health }: Health) {
  const { paused } = backend;
  const rest: Figure[] = [
    ...(since === null ? [] : [['Fails since', formatTime(since)] as const]),
    ...(paused === null ? [] : [[`Paused by ${paused.by}`, `until ${formatTime(paused.ends_at)}`] as const]),
    ...(paused?.reason ? [['Reason', paused.reason] as const] : []),
    ...(suspects > 0 ? [['Accounts that ask it last', String(suspects)] as const] : []),
  ];
  return [
    ...rest,
    ['Calls of the last minute', `${answered} answered, ${failed} failed`],
    ['First token', health.first_token_ms === null ? '–' : formatMs(health.first_token_ms)],
    ['In use', slotsOf(backend)],
  ] satisfies Figure[];
}

function failureFigures(failure: NonNullable<Health['last_failure']>): Figure[] {
  const { at, request, rule, address, outcome } = failure;
  return [
    ['When', h('span', { title: formatSecond(at) }, h(TimeAgo, { at }))],
    ['Cause', causeWords(failure)],
    ['Outcome', outcome.replaceAll('_', ' ')],
    ['Address', address ?? '–'],
    ['Rule', rule ?? '–'],
    ['Request', h('a', { href: foundLink(request) }, request)],
  ];
}
