import { type Document, isCollection, isMap, isNode, isScalar, LineCounter, parseDocument, visit } from 'yaml';
import { z } from 'zod';

/** A place in a text, both numbers from 1. */
export type Place = { line: number; column: number };

/** A fault of the text as YAML. `path` is empty unless the fault is that of a key. */
type YamlFault = { path: string; message: string } & Partial<Place>;

/** `placeOf`: where the value at a path stands, or the closest value around it; the key if the value has none of its own. */
type ReadYaml = { value: unknown; placeOf: (path: readonly PropertyKey[]) => Place } | { faults: YamlFault[] };

export function readYaml(text: string): ReadYaml {
  const lineCounter = new LineCounter();
  // A warning would be printed as a process warning, outside the log. The problem is reported as an issue anyway. To find repeated keys,
  // the parser compares each key with all before it, which takes minutes for a long map.
  const options = { prettyErrors: true, logLevel: 'error', lineCounter, uniqueKeys: false } as const;
  const document = parseDocument(text, options);
  const placeAt = (offset: number): Place => {
    const { line, col } = lineCounter.linePos(offset);
    return { line, column: col };
  };
  if (document.errors.length > 0) {
    return {
      faults: document.errors.map(({ message, pos }) => ({
        path: '',
        message: firstLineOf(message),
        ...placeAt(pos[0]),
      })),
    };
  }
  try {
    const wrongKeys = faultsOfKeys(document, placeAt);
    if (wrongKeys.length > 0) return { faults: wrongKeys };
    readPricesExactly(document);
    return { value: document.toJS(), placeOf: (path) => placeAt(offsetOf(document, path)) };
  } catch (error) {
    // An undefined alias, which the message names, or too many aliases; or a wrong merge or ordered map, whose place it does not name.
    const { message } = error as Error; // YAML throws only errors
    const path = /^merge/i.test(message) ? '<<' : /^ordered maps/i.test(message) ? '!!omap' : '';
    return { faults: [{ path, message }] };
  }
}

/** The lines after it quote the text, which can have a password in an address. */
function firstLineOf(message: string): string {
  return message.replace(/:?\n.*$/s, '');
}

/** A list or a map as a key is never meant, and to make texts of such keys within each other can take minutes. Nor is a repeated key. */
function faultsOfKeys(document: Document.Parsed, placeAt: (offset: number) => Place): YamlFault[] {
  const faults: YamlFault[] = [];
  const report = (key: unknown, problem: string) => {
    const place = placeAt(offsetOfNode(key) ?? 0);
    faults.push({ path: '', message: `${problem} at line ${place.line}, column ${place.column}`, ...place });
  };
  visit(document, {
    Map(_, { items }) {
      const keys = new Set<unknown>();
      for (const { key } of items) {
        const value: unknown = isScalar(key) ? key.value : key;
        if (isCollection(key)) report(key, 'a key is a list or a map, not a text,');
        else if (keys.has(value)) report(key, 'keys of a map must be unique, and one is repeated');
        keys.add(value);
      }
      return items.some(({ key }) => isCollection(key)) ? visit.SKIP : undefined;
    },
  });
  return faults;
}

/** Follows the path as far as it exists. Values that come by an alias or a merge stand elsewhere: their path ends at the alias. */
function offsetOf(document: Document.Parsed, path: readonly PropertyKey[]): number {
  let node: unknown = document.contents;
  let offset = offsetOfNode(node) ?? 0;
  for (const part of path) {
    if (!isCollection(node)) return offset;
    const pair = isMap(node) ? node.items.find(({ key }) => isScalar(key) && String(key.value) === part) : undefined;
    const next: unknown = isMap(node) ? pair?.value : node.items[Number(part)];
    const found = offsetOfNode(pair?.key) ?? offsetOfNode(next);
    if (found === undefined) return offset;
    offset = found;
    node = next;
  }
  return offset;
}

function offsetOfNode(node: unknown): number | undefined {
  return isNode(node) ? node.range?.[0] : undefined;
}

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
function readPricesExactly({ contents }: Document): void {
  const prices = isMap(contents) ? contents.get('prices', true) : undefined;
  if (!isNode(prices)) return;
  visit(prices, (_, node) => {
    if (isScalar(node) && typeof node.value === 'number') node.value = node.source;
  });
}
