import { type Document, isMap, isNode, isScalar, visit } from 'yaml';
import { z } from 'zod';

/** For a million tokens, as a decimal text that is exact. The file may have a number, which is read as its text. */
const price = z
  .string('expected a decimal number')
  .regex(/^\d{1,9}(\.\d{1,9})?$/, 'expected a decimal number such as 0.15, at most 9 digits before and after the point')
  .meta({ type: ['number', 'string'], minimum: 0 });

/** The prices of a model from a day on (UTC), in the order of these days (contract.md#j1-usage-reports). */
const priceList = z
  .array(
    z.strictObject({
      from: z.iso.date('expected a day as YYYY-MM-DD').describe('The first day of this price, UTC'),
      prompt: price.describe('Price of a million prompt tokens'),
      cached: price
        .optional()
        .describe('Price of a million prompt tokens that the backend had in its cache. Default: that of prompt'),
      completion: price.describe('Price of a million completion tokens'),
    }),
  )
  .min(1)
  .superRefine((list, { addIssue }) => {
    const days = list.map(({ from }) => from);
    days.forEach((day, index) => {
      if (days.indexOf(day) < index)
        addIssue({ code: 'custom', path: [index, 'from'], message: 'two prices begin on this day' });
    });
  })
  .transform((list) => list.toSorted((one, other) => (one.from < other.from ? -1 : 1)));

/** Prices are for reports of usage only. A model can have prices and not be served any more. */
export const priceFields = {
  currency: z
    .string()
    .regex(/^[A-Z]{3}$/, 'expected three capital letters (ISO 4217)')
    .default('USD')
    .describe('The currency of all prices'),
  prices: z
    .record(z.string().min(1).max(128), priceList)
    .optional()
    .describe('Prices of models by name, for reports of usage. Left out: reports have no cost'),
};

/** Makes numbers in the prices texts, as they are written: a number with many digits would be rounded. */
export function readPricesExactly({ contents }: Document): void {
  const prices = isMap(contents) ? contents.get('prices', true) : undefined;
  if (!isNode(prices)) return;
  visit(prices, (_, node) => {
    if (isScalar(node) && typeof node.value === 'number') node.value = node.source;
  });
}
