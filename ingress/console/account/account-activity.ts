import { h } from 'preact';
import { useState } from 'preact/hooks';
import type { Account } from '../../routes/accounts.ts';
import type { OperatorBatch } from '../../routes/present-batch.ts';
import type { ShownKey } from '../../routes/present-key.ts';
import type { OperatorRequest } from '../../routes/present-request.ts';
import type { Api } from '../api/api.ts';
import { usePolled } from '../page/use-loaded.ts';
import { useNewest } from '../page/use-newest.ts';
import { AccountBatches } from './account-batches.ts';
import { AccountKeys } from './account-keys.ts';
import { AccountPanels } from './account-panels.ts';
import { AccountRequests } from './account-requests.ts';
import { type EndTarget, endedWords } from './ended-words.ts';

type Props = {
  api: Api;
  name: string;
  /** Undefined for one that has no key and no changes: it can have requests and batches of sign-in tokens. */
  account: Account | undefined;
  /** Reads the account and its audit trail again. */
  reload: () => void;
};

const pageSize = 8;

/** What an account uses and runs now, and what an operator can end of it. */
export function AccountActivity({ api, name, account, reload }: Props) {
  const [ended, setEnded] = useState<EndTarget>();
  const path = `/admin/accounts/${encodeURIComponent(name)}`;
  const requests = useNewest<OperatorRequest>(api, `${path}/requests`, { pageSize, orEmpty: true });
  const batches = useNewest<OperatorBatch>(api, `${path}/batches`, { pageSize, orEmpty: true });
  for (const list of [requests, batches]) usePolled(list);

  const clear = () => setEnded(undefined);
  function done(thing: EndTarget): void {
    setEnded(thing);
    requests.reload();
    batches.reload();
    reload();
  }
  async function cancel(batch: OperatorBatch, reason: string): Promise<void> {
    const { id } = batch;
    await api.call(`/admin/batches/${id}/cancel`, { method: 'POST', body: reason === '' ? {} : { reason } });
    done({ kind: 'batch', id, name: batch.input_filename });
  }
  async function revoke({ id, key }: ShownKey, reason: string): Promise<void> {
    const query = reason === '' ? '' : `?${new URLSearchParams({ reason })}`;
    await api.call(`${path}/keys/${id}${query}`, { method: 'DELETE' });
    done({ kind: 'key', id, name: key });
  }
  const onEnded = (id: string) => done({ kind: 'request', id, name: id });
  const listed = { requests: requests.value?.data ?? [], batches: batches.value?.data ?? [] };
  return [
    h('p', { role: 'status', class: 'good' }, ended && endedWords(ended, listed)),
    account && h(AccountPanels, { api, account }),
    h(AccountRequests, { api, requests, onAsk: clear, onEnded }),
    h(AccountBatches, { account: name, batches, onAsk: clear, cancel }),
    account && h(AccountKeys, { account: name, keys: account.keys, onAsk: clear, revoke }),
  ];
}
