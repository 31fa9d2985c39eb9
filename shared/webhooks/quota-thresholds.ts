import type { PlanFile } from '../plan-file/plan-file.ts';
import type { Store } from '../store/records/store.ts';
import type { WebhookEndpoint } from '../store/records/webhooks.ts';

/** Percent of a month's allowance. */
const thresholds = [80, 95, 100] as const;

/** Usage of last month is still stored in the first minutes of a month. */
const monthsKept = 2;

type ToldThresholds = WebhookEndpoint['quotaTold'];

/** The stored usage of an account in a month, and its allowance with top-ups; undefined without a limit. */
export type QuotaUsage = { chargedTokens: number; limit: number | undefined };

export async function findQuotaUsage(
  store: Pick<Store, 'accounts' | 'usage'>,
  { account: id, month, plans }: { account: string; month: string; plans: PlanFile['plans'] },
): Promise<QuotaUsage> {
  const [account, sum] = await Promise.all([store.accounts.findAccount(id), store.usage.findUsageSum(id, month)]);
  const perMonth = account && plans[account.plan]?.tokensPerMonth;
  const topUp = account?.topUp?.month === month ? account.topUp.tokens : 0;
  return { chargedTokens: sum?.total.chargedTokens ?? 0, limit: perMonth === undefined ? undefined : perMonth + topUp };
}

/** Returns the thresholds that the usage has reached, in order. */
export function reachedThresholds({ chargedTokens, limit }: QuotaUsage): number[] {
  return limit === undefined ? [] : thresholds.filter((percent) => chargedTokens * 100 >= limit * percent);
}

/** Returns the reached thresholds that an endpoint has no event of. Months before its first one are not its concern. */
export function untoldThresholds(told: ToldThresholds, month: string, reached: readonly number[]): number[] {
  const first = Object.keys(told).sort()[0];
  if (first === undefined || month < first) return [];
  return reached.filter((percent) => percent > (told[month] ?? 0));
}

/** Notes the highest of these thresholds for a month, and keeps the last two months. */
export function noteThresholds(told: ToldThresholds, month: string, reached: readonly number[]): ToldThresholds {
  const highest = Math.max(told[month] ?? 0, ...reached);
  const newest = Object.entries({ ...told, [month]: highest }).sort(([one], [other]) => (one < other ? 1 : -1));
  return Object.fromEntries(newest.slice(0, monthsKept));
}
