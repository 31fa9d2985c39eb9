import { h } from 'preact';
import type { PlanLimits } from '../../api/response-schemas.ts';
import { Table } from '../controls/table.ts';
import { formatLimit } from '../page/format.ts';

type Row = { name: string; value: string };

/** The limits and models of a plan. */
export function PlanTable({ plan }: { plan: PlanLimits }) {
  const rows: Row[] = [
    { name: 'Plan', value: plan.plan },
    { name: 'Requests per minute', value: formatLimit(plan.requestsPerMinute) },
    { name: 'Tokens per minute', value: formatLimit(plan.tokensPerMinute) },
    { name: 'Concurrent requests', value: formatLimit(plan.requestsAtOnce) },
    { name: 'Requests per day', value: formatLimit(plan.requestsPerDay) },
    { name: 'Tokens per month', value: formatLimit(plan.tokensPerMonth) },
    {
      name: 'Overage per month',
      value: `${formatLimit(plan.overageTokensPerMonth)}, turned on by ${plan.overage === 'operator' ? 'the operator' : 'you'}`,
    },
    { name: 'Concurrent batch lines', value: formatLimit(plan.batchRequestsAtOnce) },
    { name: 'Tokens in waiting batches', value: formatLimit(plan.batchTokensWaiting) },
    { name: 'Models', value: plan.models.join(', ') },
  ];
  return h(Table<Row>, {
    caption: 'Limits of the plan',
    rows,
    rowKey: ({ name }) => name,
    columns: [
      { title: 'Limit', cell: ({ name }) => name },
      { title: 'Value', cell: ({ value }) => value, holds: 'text' },
    ],
  });
}
