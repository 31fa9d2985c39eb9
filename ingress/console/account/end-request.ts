import { h } from 'preact';
import { useState } from 'preact/hooks';
import type { OperatorRequest } from '../../requests/request-schemas.ts';
import type { Api } from '../api/api.ts';
import { EndRequestDialog } from './end-dialogs.ts';

type Shown = Pick<OperatorRequest, 'id' | 'account' | 'state'>;
type Props = { api: Api; request: Shown; onEnded: () => void };

/** A button that ends a running request. A line of a batch ends with its batch. */
export function EndRequest({ api, request: { id, account, state }, onEnded }: Props) {
  const [isAsking, setAsking] = useState(false);
  if (state === 'ended' && !isAsking) return null;
  if (isLine(id)) return h('span', { class: 'quiet' }, 'line of a batch');

  async function run(reason: string): Promise<void> {
    const path = `/admin/requests/${encodeURIComponent(id)}/cancel`;
    await api.call(path, { method: 'POST', body: reason === '' ? {} : { reason } });
    onEnded();
  }

  return [
    h('button', { type: 'button', class: 'danger', 'aria-label': `End ${id}`, onClick: () => setAsking(true) }, 'End'),
    isAsking && h(EndRequestDialog, { id, account, run, close: () => setAsking(false) }),
  ];
}

/** The id of a line's request has its number at its end. */
function isLine(id: string): boolean {
  return /-\d+$/.test(id);
}
