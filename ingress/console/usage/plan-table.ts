import { h } from 'preact';
import type { PlanLimits } from '../../api/response-schemas.ts';
import { formatLimit } from '../page/format.ts';
import { Table } from '../page/table.ts';

type Row = { name: string; value: string };

/** The limits of a plan, and the models it includes. */
export function PlanTable({ plan }: { plan: PlanLimits }) {
  const rows: Row[] = [
    { name: 'Plan', value: plan.plan },
    { name: 'Requests per minute', value: formatLimit(plan.requestsPerMinute) },
    { name: 'Tokens per minute', value: formatLimit(plan.tokensPerMinute) },
    { name: 'Requests at once', value: formatLimit(plan.requestsAtOnce) },
    { name: 'Requests per day', value: formatLimit(plan.requestsPerDay) },
    { name: 'Tokens per month', value: formatLimit(plan.tokensPerMonth) },
    { name: 'Batch lines at once', value: formatLimit(plan.batchRequestsAtOnce) },
    { name: 'Tokens in waiting batches', value: formatLimit(plan.batchTokensWaiting) },
    { name: 'Models', value: plan.models.join(', ') },
  ];
  return h(Table<Row>, {
    caption: 'What the plan allows',
    rows,
    rowKey: ({ name }) => name,
    columns: [
      { title: 'Limit', cell: ({ name }) => name },
      { title: 'Value', cell: ({ value }) => value, holds: 'text' },
    ],
  });
}
