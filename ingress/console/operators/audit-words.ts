import { type ComponentChildren, h } from 'preact';
import type { AuditRecord } from '../../routes/audit.ts';
import { type AuditFilter, foundLink } from '../page/console-route.ts';
import { formatCount } from '../page/format.ts';
import { ShortId } from '../page/identifiers.ts';

type Changes = AuditRecord['change'];
type Section = NonNullable<Changes['planFile']>['models'];

/** What records can be about, and the words for it. */
export const auditKinds: Readonly<Record<AuditRecord['kind'], string>> = {
  account: 'accounts',
  key: 'keys',
  code: 'top-up codes',
  plan_file: 'the plan file',
  backend: 'backends',
  batch: 'batches',
  request: 'requests',
};

/** The parameters of the API: it takes times, and ends before `end`. */
export function auditQuery({ start, end, ...others }: AuditFilter): Record<string, string> {
  const dayAfter = (day: string) => new Date(Date.parse(`${day}T00:00:00Z`) + 86_400_000).toISOString();
  return {
    ...others,
    ...(isDay(start) && { start: `${start}T00:00:00.000Z` }),
    ...(isDay(end) && { end: dayAfter(end) }),
  };
}

/** An address can have any text. */
function isDay(text = ''): text is string {
  return /^\d{4}-\d\d-\d\d$/.test(text) && !Number.isNaN(Date.parse(`${text}T00:00:00Z`));
}

const words: { [Name in keyof Changes]-?: (value: NonNullable<Changes[Name]>) => ComponentChildren } = {
  plan: ({ from, to }) => `plan ${from} to ${to}`,
  suspended: (isSuspended) => (isSuspended ? 'suspended' : 'resumed'),
  overageEnabled: (isOn) => `overage ${isOn ? 'on' : 'off'}`,
  overageTokensMax: (most) => `overage at most ${most === null ? 'that of the plan' : `${formatCount(most)} tokens`}`,
  topUp: ({ tokens, id }) => `topped up ${formatCount(tokens)} tokens (${id})`,
  codeRedeemed: ({ note }) => (note === null ? 'with a code' : `with a code (${note})`),
  codesCreated: ({ count, tokens, note }) =>
    `${counted(count, 'top-up code')} of ${formatCount(tokens)} tokens created${noteOf(note)}`,
  codeRevoked: ({ id, tokens, note }) => `top-up code of ${formatCount(tokens)} tokens revoked${noteOf(note)} (${id})`,
  keyMinted: (id) => ['key created: ', h(ShortId, { id, what: 'key ID' })],
  keyRotated: ({ from, to }) => [
    'key rotated: ',
    h(ShortId, { id: from, what: 'key ID' }),
    ' to ',
    h(ShortId, { id: to, what: 'key ID' }),
  ],
  keyChanged: (id) => ['key changed: ', h(ShortId, { id, what: 'key ID' })],
  keyRevoked: (id) => ['key revoked: ', h(ShortId, { id, what: 'key ID' })],
  batchCancelled: (id) => ['batch cancelled: ', h(ShortId, { id, what: 'batch ID', href: foundLink(id) })],
  requestEnded: (id) => ['request ended: ', h(ShortId, { id, what: 'request ID', href: foundLink(id) })],
  backendPaused: ({ backend, minutes }) => `backend ${backend} paused for ${formatCount(minutes)} min`,
  backendResumed: (backend) => `pause of backend ${backend} ended`,
  accountRemoved: () => 'account removed',
  planFile: planFileWords,
};

function planFileWords({ from, to, models, backends, plans, others }: NonNullable<Changes['planFile']>): string {
  const sections = [sectionWords('models', models), sectionWords('backends', backends), sectionWords('plans', plans)];
  const parts = [...sections.flat(), ...(others.length > 0 ? [`also ${others.join(', ')}`] : [])];
  const which = from === null ? `plan file ${to} in force` : `plan file ${from} to ${to}`;
  return parts.length === 0 ? which : `${which}: ${parts.join('; ')}`;
}

function sectionWords(section: string, names: Section): string[] {
  if (names === undefined) return [];
  const { added, removed, changed, more } = names;
  const lists = [
    ...(added.length > 0 ? [`${added.join(', ')} added`] : []),
    ...(removed.length > 0 ? [`${removed.join(', ')} removed`] : []),
    ...(changed.length > 0 ? [`${changed.join(', ')} changed`] : []),
    ...(more > 0 ? [`${formatCount(more)} more`] : []),
  ];
  return lists.length === 0 ? [] : [`${section} ${lists.join(', ')}`];
}

function counted(count: number, noun: string): string {
  return `${formatCount(count)} ${noun}${count === 1 ? '' : 's'}`;
}

function noteOf(note: string | null): string {
  return note === null ? '' : `, "${note}"`;
}

/** A change is usually one thing. */
export function ChangeWords({ change }: { change: Changes }) {
  const parts = Object.entries(change).filter(([, value]) => value !== undefined);
  return parts.flatMap(([name, value], index) => {
    const shown = (words[name as keyof Changes] as (value: unknown) => ComponentChildren)(value); // the words of this name
    return index === 0 ? [shown] : ['; ', shown];
  });
}
