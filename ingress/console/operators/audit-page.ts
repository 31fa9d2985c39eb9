import { h } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import type { AuditRecord } from '../../routes/audit.ts';
import type { Api } from '../api/api.ts';
import { type AuditFilter, auditLink } from '../page/route.ts';
import { useNewest } from '../page/use-newest.ts';
import { accountName } from './account-name.ts';
import { AuditTrail } from './audit-trail.ts';

/** Changes of settings and what operators have ended, filtered by account and by who did it. */
export function AuditPage({ api, filter }: { api: Api; filter: AuditFilter }) {
  const [asked, setAsked] = useState(0);
  const show = (wanted: AuditFilter) => {
    if (auditLink(wanted) === auditLink(filter)) setAsked(asked + 1);
    else window.location.hash = auditLink(wanted); // so that Back from an account returns here
  };
  return [
    h('h1', { tabIndex: -1 }, 'Audit trail'),
    h(FilterForm, { shown: filter, show }),
    h(Records, { key: `${asked} ${auditLink(filter)}`, api, filter }),
  ];
}

function Records({ api, filter }: { api: Api; filter: AuditFilter }) {
  const records = useNewest<AuditRecord>(api, '/admin/audit', { filter });
  return h(AuditTrail, { records, showsAccounts: true });
}

function FilterForm({ shown, show }: { shown: AuditFilter; show: (filter: AuditFilter) => void }) {
  const [account, setAccount] = useState('');
  const [actor, setActor] = useState('');
  useEffect(() => {
    setAccount(shown.account ?? '');
    setActor(shown.actor ?? '');
  }, [shown.account, shown.actor]);

  function submit(event: Event): void {
    event.preventDefault();
    const wanted = { account: accountName(account), actor: accountName(actor) };
    show({ ...(wanted.account && { account: wanted.account }), ...(wanted.actor && { actor: wanted.actor }) });
  }

  return h(
    'form',
    { class: 'fields', role: 'search', onSubmit: submit },
    h(NameField, { label: 'Account', text: account, setText: setAccount, example: 'user:alice' }),
    h(NameField, { label: 'Changed by', text: actor, setText: setActor, example: 'user:olga' }),
    h('button', { type: 'submit', class: 'primary' }, 'Show'),
  );
}

type NameFieldProps = { label: string; text: string; setText: (text: string) => void; example: string };

function NameField({ label, text, setText, example }: NameFieldProps) {
  return h(
    'label',
    null,
    label,
    h('input', {
      type: 'search',
      value: text,
      placeholder: example,
      maxLength: 300,
      autocomplete: 'off',
      onInput: ({ currentTarget }: { currentTarget: HTMLInputElement }) => setText(currentTarget.value),
    }),
  );
}
