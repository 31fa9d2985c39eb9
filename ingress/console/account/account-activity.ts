import { h } from 'preact';
import { useState } from 'preact/hooks';
import type { Account, AccountKey, LimitsInUse, OperatorBatch, Quota } from '../../api/response-schemas.ts';
import type { OperatorRequest } from '../../requests/request-schemas.ts';
import type { Api } from '../api/api.ts';
import { useLoaded, usePolled } from '../page/use-loaded.ts';
import { useNewest } from '../page/use-newest.ts';
import { AccountBatches } from './account-batches.ts';
import { AccountKeys } from './account-keys.ts';
import { AccountPanels } from './account-panels.ts';
import { AccountRequests } from './account-requests.ts';

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
  const [said, say] = useState('');
  const name = account.account;
  const path = `/admin/accounts/${encodeURIComponent(name)}`;
  const quota = useLoaded(
    (signal) => api.call<Quota>(`${path}/quota`, { signal }),
    [path, account.plan, account.topUp],
  );
  const limits = useLoaded((signal) => api.call<LimitsInUse>(`${path}/limits`, { signal }), [path, account.plan]);
  const requests = useNewest<OperatorRequest>(api, `${path}/requests`, { pageSize: requestsShown });
  for (const part of [quota, limits, requests]) usePolled(part, { everyMs: refreshEveryMs });

  function done(words: string): void {
    say(words);
    requests.reload();
    reload();
  }
  async function cancel({ id }: OperatorBatch, reason: string): Promise<void> {
    await api.call(`/admin/batches/${id}/cancel`, { method: 'POST', body: reason === '' ? {} : { reason } });
    done('The batch is being cancelled.');
  }
  async function revoke({ id }: AccountKey, reason: string): Promise<void> {
    const query = reason === '' ? '' : `?${new URLSearchParams({ reason })}`;
    await api.call(`${path}/keys/${id}${query}`, { method: 'DELETE' });
    done('The key was revoked.');
  }
  const onEnded = () => done('The request ends within two seconds.');
  return [
    h('p', { role: 'status', class: 'good' }, said),
    h(AccountPanels, { quota, limits }),
    h(AccountRequests, { api, requests, onEnded }),
    h(AccountBatches, { account: name, batches: account.batches, cancel }),
    h(AccountKeys, { account: name, keys: account.keys, revoke }),
  ];
}
