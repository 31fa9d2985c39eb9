import { h } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import type { FoundThing } from '../../routes/find.ts';
import type { OperatorBatch } from '../../routes/present-batch.ts';
import type { OperatorRequest } from '../../routes/present-request.ts';
import type { Api } from '../api/api.ts';
import { useLoaded, usePolled } from '../api/use-loaded.ts';
import { BatchDetail, BatchProgress } from '../batches/batch-detail.ts';
import { batchState, canBeCancelled, isMoving } from '../batches/batch-words.ts';
import { accountLink, findLink, foundLink, searchText } from '../page/console-route.ts';
import { LabelledInput } from '../page/fields.ts';
import { StateBadge } from '../page/icons.ts';
import { AccountLink, ShortId } from '../page/identifiers.ts';
import { LoadedView } from '../page/loaded-view.ts';
import { Table } from '../page/table.ts';
import { hasLeftNoRecord, LeftNoRecord, RequestActions, RequestDetail } from '../requests/request-detail.ts';
import { requestState } from '../requests/request-words.ts';
import { useKeyNames } from '../requests/requests-page.ts';
import { AskToEnd, CancelBatchDialog, EndButton } from './end-dialogs.ts';

type FoundThings = { data: FoundThing[] };

/** Finds accounts, keys, requests, batches and files of all accounts. The only thing found is opened at once. */
export function FindPage({ api, text }: { api: Api; text: string }) {
  return [
    h('h1', { tabIndex: -1 }, 'Find'),
    h(SearchForm, { key: text, shown: text }),
    text === ''
      ? h(
          'p',
          { class: 'empty' },
          'An account by its beginning or its name; a key by its first characters; a request, batch or file by its ID.',
        )
      : h(Results, { key: text, api, text }),
  ];
}

function SearchForm({ shown }: { shown: string }) {
  const [typed, setTyped] = useState(shown);
  const submit = (event: Event) => {
    event.preventDefault();
    window.location.hash = findLink(searchText(typed));
  };
  return h(
    'form',
    { class: 'toolbar', role: 'search', onSubmit: submit },
    h(LabelledInput, {
      label: 'Account, key, request, batch or file',
      type: 'search',
      value: typed,
      change: setTyped,
      input: { placeholder: 'user:alice, svc_ABC123, req_…, batch_…, file-…', spellcheck: false, maxLength: 300 },
    }),
    h('button', { type: 'submit', class: 'primary' }, 'Find'),
  );
}

function Results({ api, text }: { api: Api; text: string }) {
  const query = new URLSearchParams({ text });
  const loaded = useLoaded((signal) => api.call<FoundThings>(`/admin/find?${query}`, { signal }), [text]);
  const [only, ...others] = loaded.value?.data ?? [];
  useEffect(() => {
    // Back leads to the page before the search, and not to it.
    if (only !== undefined && others.length === 0) window.location.replace(linkOf(only));
  }, [only]);
  return h(LoadedView<FoundThings>, {
    loaded,
    what: 'the results',
    children: ({ data }) =>
      data.length === 0
        ? h('p', { class: 'empty' }, `Nothing was found. ${adviceFor(text)}`)
        : h(Table<FoundThing>, {
            caption: `Found for "${text}"`,
            rows: data,
            rowKey: ({ kind, id, account }) => `${kind} ${id} ${account}`,
            columns: [
              { title: 'Found', cell: (thing) => h('a', { href: linkOf(thing) }, thing.id), holds: 'text' },
              { title: 'What', cell: ({ kind }) => kind },
              {
                title: 'Account',
                cell: ({ account, name }) => h(AccountLink, { account, name }),
                holds: 'text',
              },
            ],
          }),
  });
}

function linkOf({ kind, id, account }: FoundThing): string {
  return kind === 'request' || kind === 'batch' ? foundLink(id) : accountLink(account);
}

function adviceFor(text: string): string {
  if (text.startsWith('req_'))
    return 'A request that was refused, for example with 429 or because a queue was full, is only in the log of its ingress. The fleet shows which queues are full now.';
  if (text.startsWith('svc_')) return 'A key that has ended is not found.';
  return 'The case of letters matters, except in names.';
}

const requestEveryMs = 1_000;

type AnyRequestProps = { api: Api; id: string; baseUrl: string; docsUrl: string };

/** A request of any account, with the backends that were called. One that runs can be ended. */
export function AnyRequestPage({ api, id, baseUrl, docsUrl }: AnyRequestProps) {
  const path = `/admin/requests/${encodeURIComponent(id)}`;
  const loaded = useLoaded((signal) => api.call<OperatorRequest>(path, { signal }), [path]);
  const [isAsking, setAsking] = useState(false);
  const { value } = loaded;
  const isGone = hasLeftNoRecord(loaded);
  const isMoving = value !== undefined && value.state !== 'ended' && !isGone;
  usePolled(loaded, { everyMs: requestEveryMs, active: isMoving });
  return [
    h(
      'p',
      { class: 'crumb' },
      h('a', { href: '#find' }, 'Find'),
      value && [' / ', h('a', { key: 'account', href: accountLink(value.account) }, value.account)],
    ),
    h('h1', { tabIndex: -1 }, h('code', null, id), value && !isGone && [' ', h(StateBadge, requestState(value))]),
    h(
      RequestActions,
      { id, fragment: foundLink(id), url: `${baseUrl}${path}` },
      isMoving && h(EndButton, { request: value, ask: () => setAsking(true) }),
    ),
    isGone
      ? h(LeftNoRecord, null)
      : h(LoadedView<OperatorRequest>, {
          loaded,
          what: 'the request',
          lines: 14,
          children: (request) => h(FoundRequestDetail, { api, request, docsUrl }),
        }),
    isAsking && value && h(AskToEnd, { api, request: value, onEnded: loaded.reload, close: () => setAsking(false) }),
  ];
}

type FoundProps = { api: Api; request: OperatorRequest; docsUrl: string };

/** With the names of the keys of its account. */
function FoundRequestDetail({ api, request, docsUrl }: FoundProps) {
  return h(RequestDetail, { api, request, keyNames: useKeyNames(api, request.account), docsUrl });
}

const batchEveryMs = 1_500;

/** A batch of any account. One that runs can be cancelled. */
export function AnyBatchPage({ api, id }: { api: Api; id: string }) {
  const [isAsking, setAsking] = useState(false);
  const path = `/admin/batches/${encodeURIComponent(id)}`;
  const loaded = useLoaded((signal) => api.call<OperatorBatch>(path, { signal }), [id]);
  const { value } = loaded;
  usePolled(loaded, { everyMs: batchEveryMs, active: value !== undefined && isMoving(value) });

  async function cancel(reason: string): Promise<void> {
    await api.call(`${path}/cancel`, { method: 'POST', body: reason === '' ? {} : { reason } });
    loaded.reload();
  }

  return [
    h('p', { class: 'crumb' }, h('a', { href: '#find' }, 'Find')),
    h(
      'h1',
      { tabIndex: -1 },
      value === undefined ? id : value.input_filename,
      value && [' ', h(StateBadge, batchState(value))],
    ),
    h('p', { class: 'quiet' }, h(ShortId, { id, what: 'batch ID' })),
    value && h('p', null, 'Account ', h('a', { href: accountLink(value.account) }, value.account)),
    h(LoadedView<OperatorBatch>, {
      loaded,
      what: 'the batch',
      children: (batch) => [
        h('p', { class: 'wide-progress' }, h(BatchProgress, { batch })),
        canBeCancelled(batch) &&
          h(
            'div',
            { class: 'actions' },
            h('button', { type: 'button', class: 'danger', onClick: () => setAsking(true) }, 'Cancel'),
          ),
        batch.status === 'failed' && h('p', null, 'Its file has errors, which its account sees: no line was run.'),
        h(BatchDetail, { batch }),
      ],
    }),
    isAsking &&
      value &&
      h(CancelBatchDialog, { account: value.account, batch: value, run: cancel, close: () => setAsking(false) }),
  ];
}
