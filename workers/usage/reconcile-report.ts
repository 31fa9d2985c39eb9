import type { MonthTokens } from '../../shared/limits/seed.ts';
import type { UsageSum } from '../../shared/store/usage/usage-sums.ts';
import { type MonthCheck, sumDiffers } from './reconcile-drift.ts';
import type { Drift } from './reconcile-month.ts';
import type { ReconcileReport } from './reconcile-usage.ts';

/** The lines for standard output. The last line is the remaining drift. */
export function reportOf({ accounts, months, found, left, drifted }: ReconcileReport, repair: boolean): string[] {
  const more = found.months - drifted.length;
  return [
    `accounts checked: ${accounts}`,
    `months checked: ${months}`,
    ...drifted.map((month) => `  ${lineOf(month, repair)}`),
    ...(more > 0 ? [`  and ${more} more`] : []),
    ...(repair ? [`found: ${amountOf(found)}`] : []),
    `drift: ${amountOf(left)}`,
  ];
}

export function progressOf({ accounts, months, found }: ReconcileReport): string {
  return `checked ${months} months of ${accounts} accounts; ${found.months} differ`;
}

function amountOf({ tokens, months }: ReconcileReport['found']): string {
  return months === 0 ? '0' : `${tokens} tokens in ${months} account-months`;
}

function lineOf({ found, left }: Drift, repair: boolean): string {
  // As JSON, because a name from a sign-in token may contain control characters of a terminal.
  const name = `${JSON.stringify(found.account)} ${found.month}`;
  const outcome = left === undefined ? '; repaired' : '; not repaired';
  return `${name}: ${[sumText(found), ...counterText(found)].join('; ')}${repair ? outcome : ''}`;
}

function sumText(checked: MonthCheck): string {
  const { kept, recomputed, wrongDetails } = checked;
  const details = wrongDetails === 0 ? '' : `; ${wrongDetails} wrong details by day, model, key and endpoint`;
  if (!sumDiffers(checked)) return `the sum is correct (${countsText(kept)})${details}`;
  const isOnlyInKind = countsText(kept) === countsText(recomputed);
  const difference = isOnlyInKind ? ', different by kind' : '';
  return `the store has ${countsText(kept)}, recomputed ${countsText(recomputed)}${difference}${details}`;
}

function countsText(sum: UsageSum | undefined): string {
  return sum === undefined ? 'nothing' : `${sum.total.chargedTokens} tokens of ${sum.total.requests} requests`;
}

function counterText({ counter }: MonthCheck): string[] {
  if (counter === undefined) return ['Redis does not count it'];
  const { counted, expected } = counter;
  return [`Redis counts ${tokensText(counted)}, expected ${tokensText(expected)}`];
}

function tokensText({ chargedTokens, reservedTokens, overageTokens }: MonthTokens): string {
  return `${chargedTokens} charged, ${reservedTokens} reserved, ${overageTokens} overage`;
}
