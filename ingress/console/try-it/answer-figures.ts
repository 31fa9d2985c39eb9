import type { Model } from '../../routes/models.ts';
import { formatCost, formatCount, formatMs } from '../page/format.ts';
import type { Answer } from './stream-answer.ts';
import type { Tokens } from './tried-endpoint.ts';

export type Price = NonNullable<Model['price']>;

/** Times, tokens and cost of an answer, as terms with their values. What is not known is left out. */
export function figuresOf(answer: Answer, price: Price | undefined): [term: string, value: string][] {
  const { firstTokenMs, totalMs, tokens, finishReason } = answer;
  const rate = tokensPerSecond(answer);
  const cost = price && costOf(tokens, price);
  const figures: [string, string | undefined][] = [
    // Without a stream, the first token comes with the last.
    ['First token', firstTokenMs === undefined || firstTokenMs === totalMs ? undefined : formatMs(firstTokenMs)],
    ['Total', totalMs === undefined ? undefined : formatMs(totalMs)],
    ['Tokens/s', rate === undefined ? undefined : formatRate(rate)],
    ['Tokens', tokenWords(tokens)],
    ['Cost, about', cost === undefined || price === undefined ? undefined : formatSmallCost(cost, price.currency)],
    ['Finish', finishReason],
  ];
  return figures.filter((figure): figure is [string, string] => figure[1] !== undefined);
}

/** Of the answer after its first token. */
export function tokensPerSecond({ firstTokenMs, totalMs, tokens: { completion = 0 } }: Answer): number | undefined {
  if (firstTokenMs === undefined || totalMs === undefined || totalMs <= firstTokenMs || completion < 2)
    return undefined;
  return ((completion - 1) * 1_000) / (totalMs - firstTokenMs);
}

function formatRate(rate: number): string {
  return rate < 100 ? rate.toFixed(1) : formatCount(Math.round(rate));
}

/** `9 + 31`: of the prompt and of the answer. */
function tokenWords({ prompt, completion, total }: Tokens): string | undefined {
  if (prompt !== undefined && completion !== undefined) return `${formatCount(prompt)} + ${formatCount(completion)}`;
  const known = total ?? prompt ?? completion;
  return known === undefined ? undefined : formatCount(known);
}

const million = 1_000_000;

/** By the prices of today, as if no token of the prompt was cached. */
export function costOf({ prompt, completion = 0, total }: Tokens, price: Price): number | undefined {
  const prompted = prompt ?? (total === undefined ? undefined : total - completion);
  if (prompted === undefined) return undefined;
  return (prompted * Number(price.prompt) + completion * Number(price.completion)) / million;
}

const twoDigits = new Intl.NumberFormat('en', { maximumSignificantDigits: 2 });
const smallBelow = 0.01;

/** Two answers are compared by less than a cent: `0.000042 USD`. */
export function formatSmallCost(cost: number, currency: string): string {
  return cost > 0 && cost < smallBelow ? `${twoDigits.format(cost)} ${currency}` : formatCost(cost, currency);
}
