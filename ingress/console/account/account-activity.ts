import { h } from 'preact';
import { useState } from 'preact/hooks';
import type { Account, AccountKey, LimitsInUse, OperatorBatch, Quota } from '../../api/response-schemas.ts';
import type { OperatorRequest } from '../../requests/request-schemas.ts';
import type { Api } from '../api/api.ts';
import { batchTitle } from '../batches/batch-words.ts';
import { useLoaded, usePolled } from '../page/use-loaded.ts';
import { useNewest } from '../page/use-newest.ts';
import { AccountBatches } from './account-batches.ts';
import { AccountKeys } from './account-keys.ts';
import { AccountPanels } from './account-panels.ts';
import { AccountRequests } from './account-requests.ts';
import { type Ended, endedWords } from './ended-words.ts';

type Props = {
  api: Api;
  account: Account;
  /** Reads the account and its audit trail again. */
  reload: () => void;
};

const refreshEveryMs = 5_000;
const requestsShown = 8;

/** What an account uses and runs now, and what an operator can end of it. */
export function AccountActivity({ api, account, reload }: Props) {
  const [ended, setEnded] = useState<Ended>();
  const name = account.account;
  const path = `/admin/accounts/${encodeURIComponent(name)}`;
  const quota = useLoaded(
    (signal) => api.call<Quota>(`${path}/quota`, { signal }),
    [path, account.plan, account.topUp],
  );
  const limits = useLoaded((signal) => api.call<LimitsInUse>(`${path}/limits`, { signal }), [path, account.plan]);
  const requests = useNewest<OperatorRequest>(api, `${path}/requests`, { pageSize: requestsShown });
  for (const part of [quota, limits, requests]) usePolled(part, { everyMs: refreshEveryMs });

  const clear = () => setEnded(undefined);
  function done(thing: Ended): void {
    setEnded(thing);
    requests.reload();
    reload();
  }
  async function cancel(batch: OperatorBatch, reason: string): Promise<void> {
    const { id } = batch;
    await api.call(`/admin/batches/${id}/cancel`, { method: 'POST', body: reason === '' ? {} : { reason } });
    done({ kind: 'batch', id, name: batchTitle(batch) });
  }
  async function revoke({ id, key }: AccountKey, reason: string): Promise<void> {
    const query = reason === '' ? '' : `?${new URLSearchParams({ reason })}`;
    await api.call(`${path}/keys/${id}${query}`, { method: 'DELETE' });
    done({ kind: 'key', id, name: key });
  }
  const onEnded = (id: string) => done({ kind: 'request', id, name: id });
  const listed = { requests: requests.value?.data ?? [], batches: account.batches };
  return [
    h('p', { role: 'status', class: 'good' }, ended && endedWords(ended, listed)),
    h(AccountPanels, { quota, limits }),
    h(AccountRequests, { api, requests, onAsk: clear, onEnded }),
    h(AccountBatches, { account: name, batches: account.batches, onAsk: clear, cancel }),
    h(AccountKeys, { account: name, keys: account.keys, onAsk: clear, revoke }),
  ];
}
