import { type ComponentChildren, h } from 'preact';

export type Column<Row> = {
  title: string;
  cell: (row: Row) => ComponentChildren;
  /** Numbers are aligned right; texts wrap, other cells do not. */
  holds?: 'number' | 'text';
};
type Props<Row> = {
  caption: string;
  columns: readonly Column<Row>[];
  rows: readonly Row[];
  rowKey: (row: Row) => string;
};

/** A table that scrolls on its own if it is too wide, also by keyboard. The first cell of each row is its header. */
export function Table<Row>({ caption, columns, rows, rowKey }: Props<Row>) {
  return h(
    'div',
    { class: 'scroll', tabIndex: 0, role: 'region', 'aria-label': caption },
    h(
      'table',
      null,
      h('caption', null, caption),
      h(
        'thead',
        null,
        h(
          'tr',
          null,
          columns.map(({ title, holds = '' }) => h('th', { scope: 'col', key: title, class: holds }, title)),
        ),
      ),
      h(
        'tbody',
        null,
        rows.map((row) =>
          h(
            'tr',
            { key: rowKey(row) },
            columns.map(({ title, cell, holds = '' }, index) =>
              index === 0
                ? h('th', { scope: 'row', key: title, class: holds }, cell(row))
                : h('td', { key: title, class: holds }, cell(row)),
            ),
          ),
        ),
      ),
    ),
  );
}
