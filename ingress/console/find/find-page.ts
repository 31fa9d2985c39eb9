import { h } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import type { FoundThing } from '../../routes/find.ts';
import type { Api } from '../api/api.ts';
import { AccountLink } from '../controls/account-link.ts';
import { Table } from '../controls/table.ts';
import { LoadedView } from '../page/loaded-view.ts';
import { accountLink, findLink, foundLink } from '../page/route.ts';
import { searchText } from '../page/search-text.ts';
import { useLoaded } from '../page/use-loaded.ts';

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
    h(
      'label',
      null,
      'Account, key, request, batch or file',
      h('input', {
        type: 'search',
        value: typed,
        placeholder: 'user:alice, svc_ABC123, req_…, batch_…, file-…',
        autocomplete: 'off',
        spellcheck: false,
        maxLength: 300,
        onInput: ({ currentTarget }: { currentTarget: HTMLInputElement }) => setTyped(currentTarget.value),
      }),
    ),
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
