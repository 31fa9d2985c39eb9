import { h } from 'preact';
import type { PlanLimits } from '../../routes/plans.ts';
import { formatLimit } from '../page/format.ts';

/** The limits and models of a plan. */
export function PlanLimitsView({ plan }: { plan: PlanLimits }) {
  const figures = [
    ['Plan', plan.plan],
    ['Requests per minute', formatLimit(plan.requestsPerMinute)],
    ['Tokens per minute', formatLimit(plan.tokensPerMinute)],
    ['Requests at once', formatLimit(plan.requestsAtOnce)],
    ['Requests per day', formatLimit(plan.requestsPerDay)],
    ['Tokens per month', formatLimit(plan.tokensPerMonth)],
    ['Overage per month', formatLimit(plan.overageTokensPerMonth)],
    ['Overage is turned on by', plan.overage === 'operator' ? 'the operator' : 'you'],
    ['Batch lines at once', formatLimit(plan.batchRequestsAtOnce)],
    ['Tokens in waiting batches', formatLimit(plan.batchTokensWaiting)],
    ['Models', plan.models.join(', ')],
  ];
  return h(
    'dl',
    { class: 'figures' },
    figures.map(([term, value]) => h('div', { key: term }, h('dt', null, term), h('dd', null, value))),
  );
}
