import type { Quota } from '../../routes/quota.ts';
import { formatDay } from '../page/format.ts';

/** What happens to requests of a month whose allowance is used up. */
export function spentWords({
  overageEnabled,
  overageUsed,
  overageLimit,
  limit,
  used,
  reserved,
  resetDate,
}: Quota): string {
  const refused = `requests get 402 quota_exceeded until ${formatDay(resetDate)}`;
  if (!overageEnabled) return `The allowance is used up: ${refused}, a top-up, or overage.`;
  const beyond = Math.max(overageUsed, used + reserved - (limit ?? 0));
  if (overageLimit !== null && beyond >= overageLimit)
    return `The allowance and its overage are used up: ${refused}, or a top-up.`;
  return 'The allowance is used up. Overage is on: requests continue and are counted as overage.';
}
