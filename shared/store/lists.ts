import { setImmediate as nextTurn } from 'node:timers/promises';
import type { z } from 'zod';
import { type Collection, type Query, valueAt } from './documents.ts';

/** Few may be wanted. */
const wantedAtOnce = 100;

/** Reads a list on until it has `limit` documents that are wanted. */
export async function listWanted<Document extends object>(
  list: (query: Query) => Promise<Document[]>,
  { limit, after, ...query }: Query & { limit: number },
  isWanted: (kept: Document) => boolean,
): Promise<Document[]> {
  const found: Document[] = [];
  for (let place = after; ; ) {
    const atOnce = Math.max(limit - found.length, wantedAtOnce);
    const page = await list({ ...query, after: place, limit: atOnce });
    found.push(...page.filter(isWanted));
    if (found.length >= limit || page.length < atOnce) return found.slice(0, limit);
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
  /** The list has no limit: it is read to its end. */
  isWhole: boolean;
};

type Pages = {
  fields: readonly string[] | undefined;
  atOnce: number;
  /** The path of the field that orders the list. */
  next: string;
  readPage: (query: PageQuery) => Promise<Page>;
};

/** Reads a list in pages, each in a call of its own, so that no call takes long, and yields to the event loop between them. */
export async function readList<Document extends object, Name extends string>(
  collection: Collection<Document, Name>,
  index: Name | 'id',
  { after, limit = Number.POSITIVE_INFINITY, charactersMax = Number.POSITIVE_INFINITY, ...query }: Query,
  { fields, atOnce, next, readPage }: Pages,
): Promise<Document[]> {
  const [found, isWhole]: [Document[], boolean] = [[], limit === Number.POSITIVE_INFINITY];
  const schema = fields === undefined ? collection.schema : pickFields(collection.schema, fields);
  const isUnordered = index !== 'id' && collection.indexes[index].isUnique === true;
  let [place, characters] = [after && placeOf(after, collection, next), 0];
  while (found.length < limit && characters < charactersMax) {
    // It has no order. A page that is full may have been all, which no look-up comes near.
    if (isUnordered && place !== undefined) throw new Error('a list by a unique index is one page');
    const wanted = { limit: Math.min(atOnce, limit - found.length), charactersMax: charactersMax - characters };
    const page = await readPage({ ...query, fields, ...wanted, after: place, isWhole });
    for (const each of page.found) found.push(schema.parse(each) as Document); // or those fields of one
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
