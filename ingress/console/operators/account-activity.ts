import { h } from 'preact';
import { useState } from 'preact/hooks';
import type { Account } from '../../routes/accounts.ts';
import type { OperatorBatch } from '../../routes/present-batch.ts';
import type { ShownKey } from '../../routes/present-key.ts';
import type { OperatorRequest } from '../../routes/present-request.ts';
import type { LimitsInUse, Quota } from '../../routes/quota.ts';
import type { Api } from '../api/api.ts';
import { type NewestItems, useLoaded, useNewest, usePolled } from '../api/use-loaded.ts';
import { BatchProgress } from '../batches/batch-detail.ts';
import { batchState, canBeCancelled } from '../batches/batch-words.ts';
import { KeyTable } from '../keys/key-table.ts';
import { foundLink, requestsLink } from '../page/console-route.ts';
import { formatTime } from '../page/format.ts';
import { StateBadge } from '../page/icons.ts';
import { ShortId } from '../page/identifiers.ts';
import { NewestView, Panel } from '../page/loaded-view.ts';
import { filterOfCode } from '../requests/code-words.ts';
import { RequestTable } from '../requests/request-table.ts';
import { LimitsPanel, MonthPanel } from '../usage/quota-view.ts';
import { AccountErrors } from './account-errors.ts';
import { AskToEnd, CancelBatchDialog, EndButton, type EndTarget, endedWords, RevokeKeyDialog } from './end-dialogs.ts';

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
  const [code, setCode] = useState<string>();
  const filter = { fold_lines: 'true', ...(code !== undefined && filterOfCode(code)) };
  const requests = useNewest<OperatorRequest>(api, `${path}/requests`, { filter, pageSize, orEmpty: true });
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
    account && h(AccountErrors, { api, path, code, choose: setCode }),
    h(AccountRequests, { api, account: name, requests, code, onAsk: clear, onEnded }),
    h(AccountBatches, { account: name, batches, onAsk: clear, cancel }),
    account && h(AccountKeys, { account: name, keys: account.keys, onAsk: clear, revoke }),
  ];
}

type PanelsProps = { api: Api; account: Account };

/** The month of an account, and its limits in use now, as its own overview shows them. */
function AccountPanels({ api, account: { account, plan, topUp } }: PanelsProps) {
  const path = `/admin/accounts/${encodeURIComponent(account)}`;
  const quota = useLoaded((signal) => api.call<Quota>(`${path}/quota`, { signal }), [path, plan, topUp]);
  const limits = useLoaded((signal) => api.call<LimitsInUse>(`${path}/limits`, { signal }), [path, plan]);
  for (const part of [quota, limits]) usePolled(part);
  return h(
    'div',
    { class: 'panels' },
    h(MonthPanel, { loaded: quota, what: 'its quota' }),
    h(LimitsPanel, { loaded: limits, what: 'its limits' }),
  );
}

type RequestsProps = {
  api: Api;
  account: string;
  requests: NewestItems<OperatorRequest>;
  /** Only those with this code are listed. */
  code: string | undefined;
  onAsk: () => void;
  onEnded: (id: string) => void;
};

/** Requests of an account that run, and its last ones. Those that run can be ended. */
function AccountRequests({ api, account, requests, code, onAsk, onEnded }: RequestsProps) {
  const [asked, ask] = useState<OperatorRequest>();
  const open = (request: OperatorRequest) => {
    onAsk();
    ask(request);
  };
  return h(
    Panel,
    {
      title: code === undefined ? 'Requests' : `Requests with ${code}`,
      more: { href: requestsLink({ account, ...(code !== undefined && filterOfCode(code)) }), link: 'All requests' },
    },
    h(NewestView<OperatorRequest>, {
      newest: requests,
      what: 'its requests',
      lines: pageSize,
      empty: code === undefined ? 'It has sent no requests.' : 'No request is listed with this code.',
      inPanel: 'requests',
      children: (shown) =>
        h(RequestTable<OperatorRequest>, {
          caption: 'Requests, latest first',
          requests: shown,
          isShort: true,
          last: { title: 'Change', cell: (request) => h(EndButton, { request, ask: () => open(request) }) },
        }),
    }),
    asked !== undefined &&
      h(AskToEnd, { api, request: asked, onEnded: () => onEnded(asked.id), close: () => ask(undefined) }),
  );
}

type BatchesProps = {
  account: string;
  batches: NewestItems<OperatorBatch>;
  onAsk: () => void;
  cancel: (batch: OperatorBatch, reason: string) => Promise<void>;
};

/** The last batches of an account. Those that run can be cancelled. */
function AccountBatches({ account, batches, onAsk, cancel }: BatchesProps) {
  const [asked, ask] = useState<OperatorBatch>();
  const open = (batch: OperatorBatch) => {
    onAsk();
    ask(batch);
  };
  return h(
    Panel,
    { title: 'Batches' },
    h(NewestView<OperatorBatch>, {
      newest: batches,
      what: 'its batches',
      empty: 'It has no batches.',
      inPanel: 'batches',
      children: (shown) =>
        h(
          'ul',
          { class: 'rows' },
          shown.map((batch) => h('li', { key: batch.id }, h(BatchRow, { batch, ask: () => open(batch) }))),
        ),
    }),
    asked !== undefined &&
      h(CancelBatchDialog, {
        account,
        batch: asked,
        run: (reason) => cancel(asked, reason),
        close: () => ask(undefined),
      }),
  );
}

function BatchRow({ batch, ask }: { batch: OperatorBatch; ask: () => void }) {
  const title = batch.input_filename;
  return h(
    'div',
    { class: 'batch with-action' },
    h(
      'div',
      null,
      h('a', { class: 'batch-title', href: foundLink(batch.id) }, title),
      h('div', { class: 'quiet' }, h(ShortId, { id: batch.id, what: 'batch ID' }), ` ${formatTime(batch.created_at)}`),
    ),
    h(StateBadge, batchState(batch)),
    h(BatchProgress, { batch }),
    canBeCancelled(batch) &&
      h(
        'button',
        {
          type: 'button',
          class: 'danger',
          'aria-label': `Cancel ${title} of ${formatTime(batch.created_at)}`,
          onClick: ask,
        },
        'Cancel',
      ),
  );
}

type KeysProps = {
  account: string;
  keys: readonly ShownKey[];
  onAsk: () => void;
  revoke: (key: ShownKey, reason: string) => Promise<void>;
};

/** The keys of an account. Those that have not ended can be revoked, except that of a device, which would get it again. */
function AccountKeys({ account, keys, onAsk, revoke }: KeysProps) {
  const [asked, ask] = useState<ShownKey>();
  const open = (_: unknown, key: ShownKey) => {
    onAsk();
    ask(key);
  };
  const allowed = account.startsWith('device:') ? [] : (['revoke'] as const);
  return h(
    Panel,
    { title: 'Keys' },
    keys.length === 0
      ? h('p', { class: 'quiet' }, 'It has no keys.')
      : h(KeyTable<ShownKey>, { caption: 'Keys of the account', keys, allowed, ask: open }),
    asked !== undefined &&
      h(RevokeKeyDialog, {
        account,
        shown: asked,
        run: (reason) => revoke(asked, reason),
        close: () => ask(undefined),
      }),
  );
}
