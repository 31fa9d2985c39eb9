import { h } from 'preact';
import { useState } from 'preact/hooks';
import type { Key, ShownKey } from '../../routes/present-key.ts';
import { useRepeated } from '../api/use-loaded.ts';
import { requestsLink } from '../page/console-route.ts';
import { formatCount, formatRest, formatTime } from '../page/format.ts';
import { StateBadge, type Tone } from '../page/icons.ts';
import { type Column, Table } from '../page/table.ts';
import { TimeAgo } from '../page/time-ago.ts';
import {
  isEnding,
  type KeyChange,
  possibleChanges,
  restOf,
  type ShownState,
  shownState,
  sortKeys,
} from './key-state.ts';

/** Operators are not told its usage. */
type ListedKey = ShownKey & Partial<Pick<Key, 'usage'>>;
type Ask<Shown> = (what: KeyChange, key: Shown) => void;
type Props<Shown> = {
  caption: string;
  keys: readonly Shown[];
  /** What the user may change of keys, as far as the API can: by default all of it. */
  allowed?: readonly KeyChange[];
  ask: Ask<Shown>;
};

const labels = { edit: 'Edit', rotate: 'Rotate', revoke: 'Revoke' };
const tones: Record<ShownState, Tone> = {
  active: 'good',
  'in grace': 'warning',
  expired: 'warning',
  rotated: 'neutral',
  revoked: 'bad',
};
/** From here on the list can be searched. */
const searchedFrom = 10;

/** All keys of an account, masked. */
export function KeyTable<Shown extends ListedKey>({ caption, keys, allowed = allChanges, ask }: Props<Shown>) {
  const [, tick] = useState(0);
  const now = Date.now();
  const [wanted, setWanted] = useState('');
  useRepeated(() => tick((times) => times + 1), { everyMs: 1_000, active: keys.some((key) => isEnding(key, now)) });
  const isWanted = ({ name, key }: Shown) => `${name} ${key}`.toLowerCase().includes(wanted.trim().toLowerCase());
  const rows = sortKeys(keys).filter(isWanted);
  return [
    (keys.length >= searchedFrom || wanted !== '') && h(Search, { wanted, setWanted }),
    h(Table<Shown>, {
      caption: rows.length === keys.length ? caption : `${rows.length} of ${keys.length} keys`,
      rows,
      rowKey: ({ id }) => id,
      columns: [
        {
          title: 'Name and key',
          cell: (key) => [key.name, h('code', { class: 'masked-key' }, key.key), h(Purpose, { shown: key, now })],
          holds: 'text',
          phone: 'first',
        },
        { title: 'State', cell: (key) => h(State, { shown: key, now }), phone: 'end' },
        { title: 'Expires', cell: endOf, phone: 'none' },
        {
          title: 'Last used',
          cell: ({ last_used_at: at }) => (at === null ? 'never used' : ['used ', h(TimeAgo, { at })]),
          phone: 'second',
        },
        keys.some(({ usage }) => usage !== undefined) ? usageColumn : createdColumn,
        ...(allowed.length === 0
          ? []
          : [
              {
                title: 'Change',
                cell: (key: Shown) => h(Changes<Shown>, { shown: key, now, allowed, ask }),
                phone: 'last' as const,
              },
            ]),
      ],
    }),
  ];
}

const allChanges: readonly KeyChange[] = ['edit', 'rotate', 'revoke'];
const createdColumn: Column<ShownKey> = {
  title: 'Created',
  cell: ({ created_at: at }) => formatTime(at),
  phone: 'second',
};
const usageColumn: Column<ListedKey> = {
  title: 'Used this month',
  cell: ({ id, name, usage }) =>
    usage
      ? h(
          'a',
          { href: requestsLink({ key_id: id }), title: `Requests with ${name}` },
          `${counted(usage.requests, 'request')}, ${counted(usage.tokens, 'token')}`,
        )
      : '–',
  holds: 'text',
  phone: 'second',
};

/** The key that the console made for itself says so. */
function Purpose({ shown, now }: { shown: ShownKey; now: number }) {
  if (shown.purpose !== 'console') return null;
  const [rest] = formatRest(restOf(shown, now) ?? 0).match(/^\d+ \S+/) ?? [''];
  const isUsed = shown.ended_at === null && shownState(shown, now) === 'active';
  return h('span', { class: 'key-note' }, isUsed ? `used by Try it, ends in ${rest}` : 'was used by Try it');
}

function Search({ wanted, setWanted }: { wanted: string; setWanted: (wanted: string) => void }) {
  return h(
    'label',
    { class: 'find' },
    'Find by name',
    h('input', {
      type: 'search',
      autocomplete: 'off',
      value: wanted,
      onInput: ({ currentTarget }: { currentTarget: HTMLInputElement }) => setWanted(currentTarget.value),
    }),
  );
}

function State({ shown, now }: { shown: ShownKey; now: number }) {
  const state = shownState(shown, now);
  const badge = h(StateBadge, { state, tone: tones[state] });
  return state === 'in grace' ? [badge, h('div', null, `${formatRest(restOf(shown, now) ?? 0)} left`)] : badge;
}

/** `1 request`, `2 requests`, in one line. */
function counted(count: number, noun: string): string {
  return `${formatCount(count)}\u00a0${noun}${count === 1 ? '' : 's'}`;
}

function endOf({ expires_at: expiresAt, valid_until: validUntil, ended_at: endedAt }: ShownKey): string {
  if (endedAt !== null) return `ended ${formatTime(endedAt)}`;
  const ends = [expiresAt, validUntil].filter((end) => end !== null);
  return ends.length === 0 ? 'never' : formatTime(Math.min(...ends));
}

type ChangesProps<Shown> = { shown: Shown; now: number; allowed: readonly KeyChange[]; ask: Ask<Shown> };

function Changes<Shown extends ShownKey>({ shown, now, allowed, ask }: ChangesProps<Shown>) {
  const possible = possibleChanges(shown, now).filter((what) => allowed.includes(what));
  if (possible.length === 0) return null;
  return h(
    'div',
    { class: 'actions tight' },
    possible.map((what) =>
      h(
        'button',
        {
          key: what,
          type: 'button',
          class: what === 'revoke' ? 'danger' : '',
          'aria-label': `${labels[what]} ${shown.name}, ${shown.key}`,
          onClick: () => ask(what, shown),
        },
        labels[what],
      ),
    ),
  );
}
