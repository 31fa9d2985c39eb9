import { h } from 'preact';
import { useState } from 'preact/hooks';
import type { CreatedTopUpCode, ShownTopUpCode } from '../../routes/top-up-codes.ts';
import type { Api } from '../api/api.ts';
import { StateFilter } from '../controls/choice.ts';
import { LoadedView } from '../page/loaded-view.ts';
import { type CodeState, codeStates, codesLink } from '../page/route.ts';
import { useNewest } from '../page/use-newest.ts';
import { CodeTable } from './code-table.ts';
import { CreateCodesForm } from './create-codes-form.ts';
import { CreatedCodes } from './created-codes.ts';
import { RevokeCodeDialog } from './revoke-code-dialog.ts';

type Props = { api: Api; state: CodeState | undefined };

/** Operators create, list and revoke top-up codes here. */
export function CodesPage({ api, state }: Props) {
  const [created, setCreated] = useState<readonly CreatedTopUpCode[]>([]);
  const [asking, setAsking] = useState<ShownTopUpCode>();
  const codes = useNewest<ShownTopUpCode>(api, '/admin/top-up-codes', { filter: state === undefined ? {} : { state } });

  async function create(wanted: object): Promise<void> {
    const { data } = await api.call<{ data: CreatedTopUpCode[] }>('/admin/top-up-codes', {
      method: 'POST',
      body: wanted,
    });
    setCreated(data);
    codes.reload();
  }

  async function revoke({ id }: ShownTopUpCode): Promise<void> {
    await api.call(`/admin/top-up-codes/${id}`, { method: 'DELETE' });
    codes.reload();
  }

  return [
    h('h1', { tabIndex: -1 }, 'Top-up codes'),
    // The next codes would replace these, so they are stored first.
    created.length > 0
      ? h(CreatedCodes, { codes: created, dismiss: () => setCreated([]) })
      : h(CreateCodesForm, { create }),
    // In the address, so that Back from an account returns to the same list.
    h(StateFilter<CodeState>, { what: 'codes', states: codeStates, state, setState: goToCodes }),
    h(LoadedView<NonNullable<typeof codes.value>>, {
      loaded: codes,
      what: 'the codes',
      children: ({ data, has_more }) => [
        data.length === 0
          ? h('p', { class: 'empty' }, 'There are no such codes.')
          : h(CodeTable, { codes: data, askToRevoke: setAsking }),
        has_more && h('button', { type: 'button', onClick: codes.showMore }, 'Show more'),
      ],
    }),
    asking && h(RevokeCodeDialog, { code: asking, run: () => revoke(asking), close: () => setAsking(undefined) }),
  ];
}

function goToCodes(state: CodeState | undefined): void {
  window.location.hash = codesLink(state);
}
