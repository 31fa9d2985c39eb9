import { setImmediate as nextTurn } from 'node:timers/promises';
import type { z } from 'zod';
import { type Collection, type Query, valueAt } from './documents.ts';

/** Reads a list on until it has `limit` documents that are wanted. */
export async function listWanted<Kept extends object>(
  list: (query: Query) => Promise<Kept[]>,
  { limit, after, ...query }: Query & { limit: number },
  isWanted: (kept: Kept) => boolean,
): Promise<Kept[]> {
  const found: Kept[] = [];
  for (let place = after; ; ) {
    const wanted = limit - found.length;
    const page = await list({ ...query, after: place, limit: wanted });
    found.push(...page.filter(isWanted));
    if (found.length >= limit || page.length < wanted) return found;
    place = page.at(-1);
  }
}

/** The position of a document in an index: the value of the field after those of `is`, if there is one, and its id. */
export type Place = { value?: unknown; id: string };

/** A part of a list. It is the last one if `next` is undefined; otherwise the rest follows that place. */
export type Page = { found: Record<string, unknown>[]; characters: number; next: Place | undefined };

export type PageQuery = Omit<Query, 'after' | 'limit'> & {
  fields: readonly string[] | undefined;
  after: Place | undefined;
  limit: number;
};

/** With a projection a page can be longer. */
const projectedFactor = 20;
const atOnceUsual = 100;

type Pages = {
  fields: readonly string[] | undefined;
  /** The path of the field that orders the list. */
  next: string;
  readPage: (query: PageQuery) => Promise<Page>;
};

/** Reads a list in pages, each in a call of its own, so that no call takes long, and yields to the event loop between them. */
export async function readList<Kept extends object>(
  collection: Pick<Collection<Kept>, 'id' | 'schema' | 'atOnce'>,
  { after, limit = Number.POSITIVE_INFINITY, charactersMax = Number.POSITIVE_INFINITY, ...query }: Query,
  { fields, next, readPage }: Pages,
): Promise<Kept[]> {
  const found: Kept[] = [];
  const schema = fields === undefined ? collection.schema : pickFields(collection.schema, fields);
  const atOnce = (collection.atOnce ?? atOnceUsual) * (fields === undefined ? 1 : projectedFactor);
  let [place, characters] = [after && placeOf(after, collection, next), 0];
  while (found.length < limit && characters < charactersMax) {
    const wanted = { limit: Math.min(atOnce, limit - found.length), charactersMax: charactersMax - characters };
    const page = await readPage({ ...query, fields, ...wanted, after: place });
    for (const each of page.found) found.push(schema.parse(each) as Kept); // or those fields of one
    characters += page.characters;
    place = page.next;
    if (place === undefined) break;
    await nextTurn();
  }
  return found;
}

function placeOf(document: object, { id }: Pick<Collection, 'id'>, next: string): Place {
  return { value: next === id ? undefined : valueAt(document, next), id: String(valueAt(document, id)) };
}

function pickFields(schema: z.ZodObject, fields: readonly string[]): z.ZodObject {
  const mask: Record<string, true> = Object.fromEntries(fields.map((field) => [field, true]));
  return schema.pick(mask as Parameters<typeof schema.pick>[0]); // names of its fields
}

type Sizes<Item> = { count: number; length: number; lengthOf: (item: Item) => number };

/** Splits items into pieces in order. Each has at most `count` items and about `length` in all, but at least one item. */
export function inPieces<Item>(items: readonly Item[], { count, length, lengthOf }: Sizes<Item>): Item[][] {
  const pieces: Item[][] = [];
  let size = 0;
  for (const item of items) {
    const last = pieces.at(-1);
    const own = lengthOf(item);
    if (last === undefined || last.length === count || size + own > length) {
      pieces.push([item]);
      size = own;
    } else {
      last.push(item);
      size += own;
    }
  }
  return pieces;
}

/** Compares by the bytes in UTF-8, as both stores order text; JavaScript would order it differently. */
export function compareBytes(one: string, other: string): number {
  return Buffer.compare(Buffer.from(one), Buffer.from(other));
}
