import { h } from 'preact';
import type { ShownTopUpCode } from '../../routes/top-up-codes.ts';
import { StateBadge, type Tone } from '../controls/state-badge.ts';
import { Table } from '../controls/table.ts';
import { formatCount, formatTime } from '../page/format.ts';
import { accountLink } from '../page/route.ts';

type Ask = (code: ShownTopUpCode) => void;
type Props = { codes: readonly ShownTopUpCode[]; askToRevoke: Ask };

const tones: Record<ShownTopUpCode['state'], Tone> = {
  unused: 'good',
  redeemed: 'neutral',
  revoked: 'bad',
  expired: 'warning',
};

/** Codes by their ids: the codes themselves are not kept. */
export function CodeTable({ codes, askToRevoke }: Props) {
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
