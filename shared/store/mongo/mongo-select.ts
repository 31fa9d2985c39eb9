import { type Collection, type Index, isListIndex, type Query } from '../documents.ts';
import type { Place } from '../lists.ts';
import { type CollectionIndexes, type Index as MongoIndex, index as mongoIndex } from './mongo-indexes.ts';

/**
 * The indexes of a collection. The values of an index over a list are in a field of their own, with the name of the index. It is sparse:
 * documents without values do not count as having the same.
 */
export function indexesOf({ name, id, indexes }: Pick<Collection, 'name' | 'id' | 'indexes'>): CollectionIndexes {
  return { collection: name, indexes: Object.entries(indexes).map(([field, index]) => toMongoIndex(field, index, id)) };
}

/** A compound index is not sparse: it has each document with any of its fields. */
function toMongoIndex(name: string, index: Index, id: string): MongoIndex {
  const unique = index.isUnique && { unique: true as const };
  if (isListIndex(index)) return mongoIndex({ [name]: 1 }, { sparse: true, ...unique });
  const { fields, also = [], isSparse = false } = index;
  const isAlone = isSparse || index.isUnique || also.length > 0;
  const paths = [...fields, ...(isSparse ? [] : also), ...(isAlone ? [] : [id])];
  const key = Object.fromEntries(paths.map((path) => [path === id ? '_id' : path, 1 as const]));
  return mongoIndex(key, { ...((isSparse || index.isUnique) && { sparse: true }), ...unique });
}

/** `next`: the path of the field that orders the list, after those that `is` has values of. */
type Selection = { filter: Record<string, unknown>; next: string; sort: Record<string, 1 | -1> };

/** The filter and the order of a query of an index, or of the ids. */
export function selectionOf(
  { id: idField, indexes }: Pick<Collection, 'id' | 'indexes'>,
  name: string,
  query: Omit<Query, 'after' | 'limit'> & { after?: Place | undefined },
): Selection {
  const index = indexes[name];
  if (index !== undefined && isListIndex(index)) return selectionInList(name, query, index.isUnique === true);
  const { is = [], after, order = 'asc' } = query;
  const fields = (index?.fields ?? [idField]).map((field) => (field === idField ? '_id' : field));
  const next = fields[is.length] ?? '_id';
  const sign = order === 'asc' ? (1 as const) : (-1 as const);
  const equal = is.map((value, number) => [fields[number], Array.isArray(value) ? { $in: value } : value]);
  const isAlone = next === '_id' || index?.isSparse === true; // no two documents have the same
  const range = boundsOf(query, index?.isSparse === true && is.length === 0);
  return {
    filter: {
      ...Object.fromEntries(equal),
      ...(Object.keys(range).length > 0 && { [next]: range }),
      ...(after !== undefined && { $and: afterOf(after, { next, isAlone, order }) }),
    },
    next,
    // A unique value is looked up: with an order, MongoDB would also consider to walk all ids.
    sort: index?.isUnique ? {} : isAlone ? { [next]: sign } : { [next]: sign, _id: sign },
  };
}

function selectionInList(name: string, query: Parameters<typeof selectionOf>[2], isUnique: boolean): Selection {
  const { is = [], after, order = 'asc' } = query;
  // One value must be in the range: without `$elemMatch`, its bounds could be met by two.
  const values =
    is[0] === undefined ? { $elemMatch: { $gte: '', ...boundsOf(query, false) } } : { $in: [is[0]].flat() };
  return {
    filter: {
      [name]: values,
      ...(after !== undefined && { $and: afterOf(after, { next: '_id', isAlone: true, order }) }),
    },
    next: '_id',
    sort: isUnique ? {} : { _id: order === 'asc' ? 1 : -1 },
  };
}

function boundsOf({ from, to, before }: Pick<Query, 'from' | 'to' | 'before'>, isSparse: boolean) {
  return {
    ...(from !== undefined && { $gte: from }),
    ...(from === undefined && isSparse && { $gte: '' }),
    ...(to !== undefined && { $lte: to }),
    ...(before !== undefined && { $lt: before }),
  };
}

type PageOrder = { next: string; isAlone: boolean; order: 'asc' | 'desc' };

function afterOf({ value, id }: Place, { next, isAlone, order }: PageOrder): object[] {
  const isAfter = order === 'asc' ? '$gt' : '$lt';
  if (isAlone) return [{ [next]: { [isAfter]: next === '_id' ? id : value } }];
  const ties = [{ [next]: { [isAfter]: value } }, { [next]: value, _id: { [isAfter]: id } }];
  // The first condition tells MongoDB where in the index to begin.
  return [{ [next]: { [`${isAfter}e`]: value } }, { $or: ties }];
}
