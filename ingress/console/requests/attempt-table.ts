import { h } from 'preact';
import { formatMs } from '../page/format.ts';
import { StateBadge, type Tone } from '../page/icons.ts';
import { type Column, Table } from '../page/table.ts';
import { attemptState, type ShownAttempt } from './attempt-words.ts';

type NumberedAttempt = ShownAttempt & { number: number };

/** The calls of model servers of a request; for operators with their names, addresses and rules. */
export function AttemptTable({ attempts }: { attempts: readonly ShownAttempt[] }) {
  const isForOperators = attempts.some(({ backend }) => backend !== undefined);
  return h(Table<NumberedAttempt>, {
    caption: 'Calls of model servers, in order',
    rows: attempts.map((attempt, index) => ({ ...attempt, number: index + 1 })),
    rowKey: ({ number: position }) => String(position),
    columns: isForOperators
      ? [call, backend, address, location, happened, ...(attempts.some(({ rule: name }) => name) ? [rule] : []), after]
      : [call, location, happened, after],
  });
}

const call: Column<NumberedAttempt> = { title: 'Call', phone: 'first', cell: ({ number: position }) => position };
const backend: Column<NumberedAttempt> = {
  title: 'Backend',
  phone: 'first',
  cell: ({ backend: name }) => name ?? 'not known any more',
};
const address: Column<NumberedAttempt> = {
  title: 'Address',
  phone: 'second',
  cell: ({ address: called }) => called && h('code', null, called),
};
const location: Column<NumberedAttempt> = {
  title: 'Location',
  phone: 'second',
  cell: ({ location: place }) => place ?? '–',
};
const tones: Readonly<Record<string, Tone>> = { answered: 'good', stopped: 'neutral' };
const happened: Column<NumberedAttempt> = {
  title: 'What happened',
  phone: 'end',
  cell: (attempt) => h(StateBadge, { state: attemptState(attempt), tone: tones[attempt.outcome] ?? 'bad' }),
};
const rule: Column<NumberedAttempt> = {
  title: 'Rule',
  phone: 'second',
  cell: ({ rule: name }) => name && h('code', null, name),
};
const after: Column<NumberedAttempt> = {
  title: 'After',
  holds: 'number',
  phone: 'second',
  cell: ({ ms }) => (ms === null ? '–' : formatMs(ms)),
};
