import { h } from 'preact';
import type { UsageReport } from '../../usage/usage-report.ts';
import type { Api } from '../api/api.ts';
import { useLoaded, usePolled } from '../api/use-loaded.ts';
import { hourSeconds, hourText } from '../charts/steps.ts';
import { formatCount, formatHour } from '../page/format.ts';
import { LoadedView, Panel } from '../page/loaded-view.ts';
import { Table } from '../page/table.ts';
import { refusedModel } from '../requests/code-words.ts';

const hoursShown = 24;
const everyMs = 30_000;

type Props = {
  api: Api;
  /** The route of the account. */
  path: string;
  /** The code whose requests are listed. */
  code: string | undefined;
  choose: (code: string | undefined) => void;
};

/** Why requests of an account have failed in the last day, by code; a click lists those with one of them. */
export function AccountErrors({ api, path, code, choose }: Props) {
  const now = Date.now() / 1_000;
  const [start, end] = [hourText(now - (hoursShown - 1) * hourSeconds), hourText(now)];
  const query = `group_by=hour,model&start=${start}&end=${end}`;
  const loaded = useLoaded((signal) => api.call<UsageReport>(`${path}/usage?${query}`, { signal }), [path, query]);
  usePolled(loaded, { everyMs });
  return h(
    Panel,
    { title: 'Errors of the last 24 hours' },
    h(LoadedView<UsageReport>, {
      loaded,
      what: 'its errors',
      lines: 2,
      children({ data }) {
        const rows = errorsByCode(data);
        return rows.length === 0
          ? h('p', { class: 'quiet' }, 'No request has failed or was refused.')
          : h(ErrorTable, { rows, code, choose });
      },
    }),
  );
}

/** `listed`: those of them that were not refused, so that there is a list of them. */
type ErrorSum = { code: string; count: number; listed: number; models: readonly string[]; lastHour: number };

/** Errors by code, most first, with their models and the last hour in which there were some. */
export function errorsByCode(rows: UsageReport['data']): ErrorSum[] {
  const errors = rows.flatMap(({ hour = '', model = '', errors: counts = {} }) =>
    Object.entries(counts).map(([code, count]) => ({ code, count, model, hour: Date.parse(hour) / 1_000 })),
  );
  return [...Map.groupBy(errors, ({ code }) => code)]
    .map(([code, all]) => ({
      code,
      count: all.reduce((sum, { count }) => sum + count, 0),
      listed: all.reduce((sum, { count, model }) => sum + (model === refusedModel ? 0 : count), 0),
      models: [...new Set(all.map(({ model }) => model))].filter((model) => model !== '' && model !== refusedModel),
      lastHour: Math.max(...all.map(({ hour }) => hour)),
    }))
    .toSorted((one, other) => other.count - one.count);
}

function ErrorTable({ rows, code, choose }: Pick<Props, 'code' | 'choose'> & { rows: readonly ErrorSum[] }) {
  return h(Table<ErrorSum>, {
    caption: 'Failed and refused requests by code, most first; refused ones are only counted',
    rows,
    rowKey: (row) => row.code,
    columns: [
      { title: 'Code', cell: (row) => h('code', null, row.code), phone: 'first' },
      {
        title: 'Requests',
        cell: ({ count }) => formatCount(count),
        holds: 'number',
        sortBy: ({ count }) => count,
        phone: 'end',
      },
      { title: 'Models', cell: ({ models }) => models.join(', ') || '–', holds: 'text', phone: 'second' },
      {
        title: 'Last in the hour from',
        cell: ({ lastHour }) => formatHour(lastHour),
        sortBy: ({ lastHour }) => lastHour,
        phone: 'second',
      },
      {
        title: 'Requests below',
        cell: (row) =>
          row.listed > 0 &&
          h(
            'button',
            {
              type: 'button',
              'aria-pressed': row.code === code,
              'aria-label': row.code === code ? 'Show all' : `Show only these: ${row.code}`,
              onClick: () => choose(row.code === code ? undefined : row.code),
            },
            row.code === code ? 'Show all' : 'Show only these',
          ),
        phone: 'second',
      },
    ],
  });
}
