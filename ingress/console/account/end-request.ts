import { h } from 'preact';
import type { OperatorRequest } from '../../routes/present-request.ts';
import type { Api } from '../api/api.ts';
import { EndRequestDialog } from './end-dialogs.ts';

type EndableRequest = Pick<OperatorRequest, 'id' | 'account' | 'state'>;

/** A button that asks whether to end a running request. A line of a batch ends with its batch. */
export function EndButton({ request: { id, state }, ask }: { request: EndableRequest; ask: () => void }) {
  if (state === 'ended') return null;
  if (isLine(id)) return h('span', { class: 'quiet' }, 'line of a batch');
  return h('button', { type: 'button', class: 'danger', 'aria-label': `End ${id}`, onClick: ask }, 'End');
}

type AskProps = { api: Api; request: EndableRequest; onEnded: () => void; close: () => void };

/** Asks, and ends it. */
export function AskToEnd({ api, request: { id, account }, onEnded, close }: AskProps) {
  async function run(reason: string): Promise<void> {
    const path = `/admin/requests/${encodeURIComponent(id)}/cancel`;
    await api.call(path, { method: 'POST', body: reason === '' ? {} : { reason } });
    onEnded();
  }
  return h(EndRequestDialog, { id, account, run, close });
}

/** The id of a line's request has its number at its end. */
function isLine(id: string): boolean {
  return /-\d+$/.test(id);
}
