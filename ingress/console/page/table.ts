import { type ComponentChildren, h } from 'preact';

type Column<Row> = { title: string; cell: (row: Row) => ComponentChildren; isNumber?: boolean };
type Props<Row> = {
  caption: string;
  columns: readonly Column<Row>[];
  rows: readonly Row[];
  rowKey: (row: Row) => string;
};

/** Wider than a phone it scrolls by itself, with the keyboard as well. The first cell of each row names it. */
export function Table<Row>({ caption, columns, rows, rowKey }: Props<Row>) {
  const numeric = (isNumber: boolean | undefined) => (isNumber ? { class: 'number' } : {});
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
          columns.map(({ title, isNumber }) => h('th', { scope: 'col', key: title, ...numeric(isNumber) }, title)),
        ),
      ),
      h(
        'tbody',
        null,
        rows.map((row) =>
          h(
            'tr',
            { key: rowKey(row) },
            columns.map(({ title, cell, isNumber }, index) =>
              index === 0
                ? h('th', { scope: 'row', key: title }, cell(row))
                : h('td', { key: title, ...numeric(isNumber) }, cell(row)),
            ),
          ),
        ),
      ),
    ),
  );
}
