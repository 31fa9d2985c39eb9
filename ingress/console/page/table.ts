import { type ComponentChildren, h } from 'preact';
import { useState } from 'preact/hooks';
import { Icon } from './icons.ts';

export type Column<Row> = {
  title: string;
  cell: (row: Row) => ComponentChildren;
  /** Numbers are aligned right; texts wrap, other cells do not. */
  holds?: 'number' | 'text';
  /** The rows can be sorted by this value. Undefined values come last. */
  sortBy?: (row: Row) => string | number | undefined;
  /**
   * Where it is in a row on a phone, if the table has such places: in the first line, at its end, in the second line, in a line of its own
   * below, or nowhere. Without any, each value is beside the title of its column.
   */
  phone?: 'first' | 'end' | 'second' | 'last' | 'none';
};
type Props<Row> = {
  caption: string;
  columns: readonly Column<Row>[];
  rows: readonly Row[];
  rowKey: (row: Row) => string;
  /** If there are more, the others are shown on demand. */
  rowsAtFirst?: number;
};
type Order = { title: string; isDescending: boolean };

/**
 * A table that scrolls on its own if it is too wide, also by keyboard. The first cell of each row is its header. On a phone each row is a
 * block: of two lines, or with the title of the column before each value.
 */
export function Table<Row>({ caption, columns, rows, rowKey, rowsAtFirst = rows.length }: Props<Row>) {
  const [order, setOrder] = useState<Order>();
  const [isWhole, setWhole] = useState(false);
  const sorted = sortRows(rows, columns, order).slice(0, isWhole ? rows.length : rowsAtFirst);
  const isBrief = columns.some(({ phone }) => phone !== undefined);
  const table = h(
    'div',
    { class: isBrief ? 'scroll brief' : 'scroll', tabIndex: 0, role: 'region', 'aria-label': caption },
    h(
      'table',
      // Blocks would lose these roles.
      { role: 'table' },
      h('caption', null, caption),
      h(
        'thead',
        { role: 'rowgroup' },
        h(
          'tr',
          { role: 'row' },
          columns.map((column) => h(Head<Row>, { key: column.title, column, order, setOrder })),
        ),
      ),
      h(
        'tbody',
        { role: 'rowgroup' },
        sorted.map((row) =>
          h(
            'tr',
            { key: rowKey(row), role: 'row' },
            columns.map((column, index) => h(Cell<Row>, { key: column.title, column, row, isFirst: index === 0 })),
          ),
        ),
      ),
    ),
  );
  if (rows.length <= rowsAtFirst) return table;
  return [
    table,
    h(
      'button',
      { type: 'button', class: 'more-rows', 'aria-expanded': isWhole, onClick: () => setWhole(!isWhole) },
      isWhole ? `Show the first ${rowsAtFirst} rows` : `Show all ${rows.length} rows`,
    ),
  ];
}

type CellProps<Row> = { column: Column<Row>; row: Row; isFirst: boolean };

function Cell<Row>({ column: { title, cell, holds, phone }, row, isFirst }: CellProps<Row>) {
  const classes = [holds ?? '', phone === undefined ? '' : `phone-${phone}`].filter(Boolean);
  const common = { class: classes.join(' '), 'data-title': title };
  const content = cell(row);
  // On a phone, it is beside the title as one block.
  const value = Array.isArray(content) ? h('div', null, content) : content;
  return isFirst
    ? h('th', { scope: 'row', role: 'rowheader', ...common }, value)
    : h('td', { role: 'cell', ...common }, value);
}

type HeadProps<Row> = { column: Column<Row>; order: Order | undefined; setOrder: (order: Order) => void };

function Head<Row>({ column: { title, holds, sortBy }, order, setOrder }: HeadProps<Row>) {
  const common = { scope: 'col', role: 'columnheader', class: holds ?? '' };
  if (sortBy === undefined) return h('th', common, title);
  const isSorted = order?.title === title;
  const isDescending = isSorted && order.isDescending;
  return h(
    'th',
    { ...common, 'aria-sort': isSorted ? (isDescending ? 'descending' : 'ascending') : 'none' },
    h(
      'button',
      {
        type: 'button',
        class: 'sort',
        // Of numbers, the largest are wanted first.
        onClick: () => setOrder({ title, isDescending: isSorted ? !isDescending : holds === 'number' }),
      },
      title,
      h('span', { class: isSorted ? 'order' : 'order none' }, h(Icon, { name: isDescending ? 'down' : 'up' })),
    ),
  );
}

function sortRows<Row>(rows: readonly Row[], columns: readonly Column<Row>[], order: Order | undefined) {
  const sortBy = columns.find(({ title }) => title === order?.title)?.sortBy;
  if (order === undefined || sortBy === undefined) return rows;
  return rows.toSorted((one, other) => {
    const [first, second] = [sortBy(one), sortBy(other)];
    if (first === undefined || second === undefined) return Number(first === undefined) - Number(second === undefined);
    return (order.isDescending ? -1 : 1) * compare(first, second);
  });
}

const texts = new Intl.Collator('en', { numeric: true });

function compare(one: string | number, other: string | number): number {
  if (typeof one === 'number' && typeof other === 'number') return one - other;
  return texts.compare(String(one), String(other));
}

/** A term and its value. */
export type Figure = readonly [term: string, value: ComponentChildren];

/** Values with their terms, beside each other. */
export function Figures({ figures }: { figures: readonly Figure[] }) {
  return h(
    'dl',
    { class: 'figures' },
    figures.map(([term, value]) => h('div', { key: term }, h('dt', null, term), h('dd', null, value))),
  );
}
