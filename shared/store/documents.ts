import { setTimeout as sleep } from 'node:timers/promises';
import type { z } from 'zod';
import { ApiError } from '../errors.ts';

/** What an index has. Times are `Date` in documents, and compared as such. */
export type IndexValue = string | number | boolean | Date;

/**
 * An index by fields, which are paths such as `removal.isDone`. Its documents are in the order of these fields, and then of their ids.
 * `isUnique`: no two documents may have the same values. It looks up a page of documents at most, in no order. `isSparse`: it has one
 * field, and only documents with a text in it, each another one. `also`: fields that a tally reads from the index, without the documents.
 */
export type FieldIndex = { fields: readonly string[]; isSparse?: true; isUnique?: true; also?: readonly string[] };

/**
 * An index over a list: of its items, or of a field of those items that have the field `having`. Its documents are in the order of their
 * ids. `isUnique` as above.
 */
type ListIndex = { list: string; field?: string; having?: string; isUnique?: true };

export type Index = FieldIndex | ListIndex;

/**
 * A collection of documents. `id` is the field with the id. `text` is a field with a long text or null, which adapters keep apart if that
 * is faster. `uses` is a field with the times when the values of a list index were last used: a change does not write it, and drops the
 * times of values that the document no longer has.
 */
export type Collection<Document extends object = object, Name extends string = string> = {
  name: string;
  schema: z.ZodObject & z.ZodType<Document>;
  id: string;
  indexes: Readonly<Record<Name, Index>>;
  text?: string;
  uses?: { field: string; index: NoInfer<Name> };
  /** How many documents are read at once, fewer than usual if they are large. */
  atOnce?: number;
};

/** A decision on a document. Without `next` and `isRemoved` it remains unchanged. */
export type Decision<Document, Result> = { result: Result; next?: Document; isRemoved?: true };

/** Pure, so that it can be called as often as needed. */
export type Decide<Document, Result> = (kept: Document | undefined) => Decision<Document, Result>;

/**
 * The documents whose first fields have the values `is`, each one of several if it is a list, and whose next field is in the range. `is`
 * has values of all fields of the index, or of all but the last: so the index has the documents in the order of the list. `after` is the
 * document before the first. It ends early once `text` has `charactersMax` in all.
 */
export type Query = {
  is?: readonly (IndexValue | readonly IndexValue[])[] | undefined;
  from?: IndexValue | undefined;
  to?: IndexValue | undefined;
  before?: IndexValue | undefined;
  after?: object | undefined;
  order?: 'asc' | 'desc' | undefined;
  limit?: number;
  charactersMax?: number;
};

/** Of documents with the same value of `by`: how many, and the sum and the minimum of their fields. */
export type Tally = { value: unknown; count: number; sum: number; least: unknown };

export type TallyQuery = Pick<Query, 'is'> & { by?: string; sum?: string; least?: string };

export type Use = { id: string; value: string; at: Date };

/**
 * The documents of one collection. Reads see only what a failover cannot undo. A call may be repeated, by any number of processes, and be
 * interrupted at any point.
 */
export interface Documents<Document extends object, Name extends string = string> {
  find(id: string): Promise<Document | undefined>;

  /** Finds those of these documents that exist. `isCertain`: they are known to exist, so it waits until all are safe from a failover. */
  findAll(ids: readonly string[], options?: { isCertain?: boolean }): Promise<Map<string, Document>>;

  /** Inserts those whose id and unique values no other document has. Returns the ids of the others. */
  insert(documents: readonly Document[]): Promise<string[]>;

  /**
   * Changes one document atomically as `decide` returns. `next` is written, or the document removed, only if it has not changed in the
   * meantime, and for a removal also not been used; otherwise `decide` is called again. Creates a document that does not exist. Fails with
   * `INTERNAL_ERROR` if another document has one of its unique values. The result is safe from a failover.
   */
  change<Result>(id: string, decide: Decide<Document, Result>): Promise<Result>;

  /**
   * Adds to the numbers at these paths, if all of them are there and none exceeds its maximum; returns whether it did. Unlike changes,
   * calls at once do not wait for each other.
   */
  add(
    id: string,
    amounts: Readonly<Record<string, number>>,
    maxima: Readonly<Record<string, number>>,
  ): Promise<boolean>;

  /** Lists documents by an index, or by `id`. */
  list(index: Name | 'id', query: Query): Promise<Document[]>;

  /** The same, but reads only these fields. */
  listFields<Field extends keyof Document & string>(
    index: Name | 'id',
    fields: readonly Field[],
    query: Query,
  ): Promise<Pick<Document, Field>[]>;

  /** Counts the documents that `list` would find, by the values of a field of the index, without reading them. */
  tally(index: Name, query: TallyQuery): Promise<Tally[]>;

  /** Removes these documents, at any version. Idempotent. */
  remove(ids: readonly string[]): Promise<void>;

  /** Removes up to `limit` of the documents that `list` would find; returns how many it found. Only 0 means that none is left. */
  removeSome(
    index: Name | 'id',
    query: Pick<Query, 'is' | 'from' | 'to' | 'before'> & { limit: number },
  ): Promise<number>;

  /** Notes when values were last used (`Collection.uses`). No time moves back, and a value that the document does not have is ignored. */
  noteUses(uses: readonly Use[]): Promise<void>;
}

/** Opens the collections of one database. */
export type OpenDocuments = <Document extends object, Name extends string>(
  collection: Collection<Document, Name>,
) => Documents<Document, Name>;

/** Makes decisions of a change write the next version. They do not change it themselves. */
export function withNextVersion<Document extends { version: number }, Result>(
  decide: Decide<Document, Result>,
): Decide<Document, Result> {
  return (kept) => {
    const decision = decide(kept);
    const version = (kept?.version ?? 0) + 1;
    return decision.next === undefined ? decision : { ...decision, next: { ...decision.next, version } };
  };
}

/** Returns the document after an addition (`Documents.add`); undefined if a number is missing or would exceed its maximum. */
export function withAdded<Document extends object>(
  kept: Document,
  amounts: Readonly<Record<string, number>>,
  maxima: Readonly<Record<string, number>>,
): Document | undefined {
  const next = structuredClone(kept);
  for (const [path, amount] of Object.entries(amounts)) {
    const [name = '', ...parents] = path.split('.').reverse();
    const parent = parents.reduceRight<unknown>(valueAt, next) as Record<string, unknown> | undefined; // a path of fields
    const value = parent?.[name];
    if (
      parent === undefined ||
      typeof value !== 'number' ||
      value + amount > (maxima[path] ?? Number.POSITIVE_INFINITY)
    )
      return undefined;
    parent[name] = value + amount;
  }
  return next;
}

/** Returns the field of a document with this path. */
export function valueAt(document: unknown, path: string): unknown {
  return path
    .split('.')
    .reduce<unknown>((value, name) => (value as Record<string, unknown> | undefined)?.[name], document); // a path of declared fields
}

/** Returns the values of a document that a list index has. */
export function valuesIn(document: unknown, { list, field, having }: ListIndex): string[] {
  const items = (valueAt(document, list) ?? []) as unknown[]; // declared as a list
  const kept = having === undefined ? items : items.filter((item) => valueAt(item, having) !== undefined);
  const values = field === undefined ? kept : kept.map((item) => valueAt(item, field));
  return [...new Set(values.filter((value) => value !== undefined).map(String))];
}

export function isListIndex(index: Index): index is ListIndex {
  return 'list' in index;
}

/**
 * Returns the same decision, but throws an error of `decide` only when its result is read. Such an error is the caller's: thrown in the
 * middle of a call, it would be taken for a failure of the store.
 */
export function captureDecision<Document, Result>(decide: Decide<Document, Result>): Decide<Document, () => Result> {
  return (kept) => {
    try {
      const { result, ...decision } = decide(kept);
      return { ...decision, result: () => result };
    } catch (error) {
      return {
        result: () => {
          throw error;
        },
      };
    }
  };
}

/** Returns the error for a store that is unreachable, busy, broken or closed. `cause` contains which, and only the log shows it. */
export function storeUnavailable(cause: unknown): ApiError {
  return new ApiError('SERVICE_UNAVAILABLE', 'The store cannot be used right now. Retry shortly.', { cause });
}

/**
 * Returns the error for a unique value that another document has: a hash of a key. Keys have 190 random bits, so this is a server error
 * and never the client's. A retry creates another key and can succeed, which `INTERNAL_ERROR` signals.
 */
export function valueTaken(cause: unknown): ApiError {
  return new ApiError('INTERNAL_ERROR', 'Something went wrong on our side.', { cause });
}

/** A store that this version of the program must not use. Final: a retry finds the same. The message is for the operator. */
export class RefusedStore extends Error {
  override readonly name = 'RefusedStore';
}

/** The error for a store with another schema than this version of the program uses. */
export function refusedSchema({ found, expected }: { found: number; expected: number }): RefusedStore {
  return new RefusedStore(
    `the store has schema ${found}, and this version uses schema ${expected}. Run the version that created the store, or set DATABASE_URL to another one`,
  );
}

const pauseMsMax = 50;

/** Pauses for a random time after an attempt (numbered from 1), so that concurrent changes of the same data do not keep colliding. */
export function pauseBeforeRetry(attempt: number, signal?: AbortSignal): Promise<void> {
  return sleep(Math.random() * Math.min(pauseMsMax, 2 ** attempt), undefined, { signal });
}
