import { h } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { CreatedTopUpCode, ShownTopUpCode } from '../../routes/top-up-codes.ts';
import type { Api } from '../api/api.ts';
import { beyondFields, fieldErrorsOf } from '../api/api-failure.ts';
import { useNewest } from '../api/use-loaded.ts';
import { ConfirmDialog, saveFile, useDoing } from '../page/actions.ts';
import { accountLink, type CodeState, codeStates, codesLink } from '../page/console-route.ts';
import { latestTime, StateFilter, TextField } from '../page/fields.ts';
import { formatCount, formatTime } from '../page/format.ts';
import { StateBadge, type Tone } from '../page/icons.ts';
import { CopyButton } from '../page/identifiers.ts';
import { Failure, NewestView } from '../page/loaded-view.ts';
import { Table } from '../page/table.ts';

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
    h(NewestView<ShownTopUpCode>, {
      newest: codes,
      what: 'the codes',
      empty: 'There are no such codes.',
      children: (shown) => h(CodeTable, { codes: shown, askToRevoke: setAsking }),
    }),
    asking && h(RevokeCodeDialog, { code: asking, run: () => revoke(asking), close: () => setAsking(undefined) }),
  ];
}

function goToCodes(state: CodeState | undefined): void {
  window.location.hash = codesLink(state);
}

const empty = { tokens: '', count: '1', expiresAt: '', note: '' };
type Draft = typeof empty;
const codeFields = ['tokens', 'count', 'expires_at', 'note'] as const;

/** `create` sends these fields of the API. */
function CreateCodesForm({ create }: { create: (fields: object) => Promise<void> }) {
  const [draft, setDraft] = useState(empty);
  const doing = useDoing(async () => {
    await create(fieldsOf(draft));
    setDraft(empty);
  });
  const errors = fieldErrorsOf(doing.error, codeFields);
  const error = beyondFields(doing.error, codeFields);
  const field = (name: keyof Draft) => ({
    value: draft[name],
    change: (value: string) => setDraft((now) => ({ ...now, [name]: value })),
  });
  const whole = { type: 'number', min: 1, step: 1, required: true };
  return h(
    'form',
    { class: 'card', onSubmit: doing.run, 'aria-labelledby': 'create-codes-title' },
    h('h2', { id: 'create-codes-title' }, 'Create codes'),
    h('p', null, 'Each code adds its tokens to the month of the account that redeems it, once.'),
    h(
      'div',
      { class: 'fields' },
      h(TextField, { ...field('tokens'), label: 'Tokens of each code', error: errors.tokens, input: whole }),
      h(TextField, {
        ...field('count'),
        label: 'Number of codes',
        error: errors.count,
        input: { ...whole, max: 1_000 },
      }),
      h(TextField, {
        ...field('expiresAt'),
        label: 'Expires',
        hint: 'In your time zone. Empty: never.',
        error: errors.expires_at,
        input: { type: 'datetime-local', max: latestTime },
      }),
      h(TextField, {
        ...field('note'),
        label: 'Note',
        hint: 'Only operators see it.',
        error: errors.note,
        input: { maxLength: 500 },
      }),
    ),
    h('button', { type: 'submit', class: 'primary', 'aria-disabled': doing.busy }, 'Create'),
    error !== undefined && h(Failure, { error }),
  );
}

function fieldsOf({ tokens, count, expiresAt, note }: Draft): object {
  return {
    tokens: Number(tokens),
    count: Number(count),
    ...(expiresAt !== '' && { expires_at: Math.floor(new Date(expiresAt).getTime() / 1000) }),
    ...(note.trim() !== '' && { note: note.trim() }),
  };
}

type CreatedProps = { codes: readonly CreatedTopUpCode[]; dismiss: () => void };

/** New codes in full, one in each line, to copy or to save. They are only in the memory of the page. */
function CreatedCodes({ codes, dismiss }: CreatedProps) {
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => heading.current?.focus(), [codes]);
  const text = codes.map(({ code }) => `${code}\n`).join('');
  const save = () => saveFile(new Blob([text], { type: 'text/plain' }), 'top-up-codes.txt');
  const [{ tokens } = { tokens: 0 }] = codes;
  return h(
    'section',
    { class: 'notice', 'aria-labelledby': 'created-codes-title' },
    h(
      'h2',
      { id: 'created-codes-title', tabIndex: -1, ref: heading },
      `${formatCount(codes.length)} new ${codes.length === 1 ? 'code' : 'codes'}, ${formatCount(tokens)} tokens each`,
    ),
    h('p', null, 'Store them now. They are shown only here, until you leave this page, and cannot be recovered.'),
    h('textarea', {
      class: 'codes',
      'aria-label': 'New codes',
      readOnly: true,
      rows: Math.min(10, codes.length),
      spellcheck: false,
      value: text,
    }),
    h(
      'div',
      { class: 'actions' },
      h(CopyButton, { text, label: 'Copy all' }),
      h('button', { type: 'button', onClick: save }, 'Save as text'),
      h('button', { type: 'button', onClick: dismiss }, 'I have stored them'),
    ),
  );
}

type Ask = (code: ShownTopUpCode) => void;
type TableProps = { codes: readonly ShownTopUpCode[]; askToRevoke: Ask };

const tones: Record<ShownTopUpCode['state'], Tone> = {
  unused: 'good',
  redeemed: 'neutral',
  revoked: 'bad',
  expired: 'warning',
};

/** Codes by their ids: the codes themselves are not kept. */
function CodeTable({ codes, askToRevoke }: TableProps) {
  return h(Table<ShownTopUpCode>, {
    caption: 'Top-up codes, newest first',
    rows: codes,
    rowKey: ({ id }) => id,
    columns: [
      { title: 'ID', cell: ({ id }) => h('code', null, id) },
      { title: 'Tokens', cell: ({ tokens }) => formatCount(tokens), holds: 'number' },
      { title: 'State', cell: ({ state }) => h(StateBadge, { state, tone: tones[state] }) },
      { title: 'Note', cell: ({ note }) => note ?? '–', holds: 'text' },
      { title: 'Change', cell: (code) => h(Revoke, { code, askToRevoke }) },
      { title: 'Created', cell: ({ created_at: at, created_by: by }) => `${formatTime(at)} by ${by}`, holds: 'text' },
      { title: 'Expires', cell: ({ expires_at: at }) => (at === null ? 'never' : formatTime(at)) },
      { title: 'Redeemed or revoked', cell: endOf, holds: 'text' },
    ],
  });
}

function endOf({ redeemed_by: redeemer, redeemed_at: redeemedAt, revoked_by: by, revoked_at: at }: ShownTopUpCode) {
  if (redeemer !== null && redeemedAt !== null)
    return [`${formatTime(redeemedAt)} by `, h('a', { href: accountLink(redeemer) }, redeemer)];
  return at === null ? '–' : `${formatTime(at)} by ${by}`;
}

function Revoke({ code, askToRevoke }: { code: ShownTopUpCode; askToRevoke: Ask }) {
  if (code.state !== 'unused' && code.state !== 'expired') return null;
  return h(
    'button',
    { type: 'button', class: 'danger', 'aria-label': `Revoke ${code.id}`, onClick: () => askToRevoke(code) },
    'Revoke',
  );
}

type RevokeProps = { code: ShownTopUpCode; run: () => Promise<void>; close: () => void };

function RevokeCodeDialog({ code: { id, tokens, note }, run, close }: RevokeProps) {
  return h(
    ConfirmDialog,
    { title: 'Revoke this code?', action: 'Revoke', isDangerous: true, run, close },
    h('p', null, h('code', null, id)),
    h('p', null, `${formatCount(tokens)} tokens${note === null ? '' : `: ${note}`}`),
    h('p', null, 'From then on no account can redeem it. This cannot be undone.'),
  );
}
