import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import { storedDate as date } from '../../json/stored-values.ts';
import type { Collection, Decide, OpenDocuments } from '../documents.ts';
import { compareBytes, listWanted } from '../lists.ts';
import { type Account, accountSchema, type GuestSecrets, isGone, isRemoved, type MonthTopUp } from './account.ts';
import { newestRecord } from './audit-records.ts';
import { isDefaultKey, isLive, type Key, type KeyScope, lastUseOf, scopeOf } from './key.ts';

type KeySearch = ({ id: string } | { start: string }) & { limit: number };

/** An account without its keys and its history, which can be large. `usedAt` is when one of its live keys was last used. */
export type ListedAccount = Pick<Account, (typeof listedFields)[number]> & { usedAt?: Date };

/**
 * `plan` is the account's current plan, not the one the key was minted under. `keyScope` is omitted for a default key, which may do all.
 */
export type KeyOwner = {
  account: string;
  keyId: string;
  keyScope?: KeyScope;
  plan: string;
  suspended: boolean;
  version: number;
  overageEnabled: boolean;
  overageTokensMax?: number;
  topUp?: MonthTopUp;
  guest?: GuestSecrets;
};

export type KeyUse = { account: string; keyId: string; at: Date };

const listedFields = ['id', 'plan', 'overageEnabled', 'suspended', 'createdAt'] as const;
const ownerFields = [
  ...(['id', 'plan', 'suspended', 'version', 'overageEnabled', 'overageTokensMax', 'topUp', 'guest', 'keys'] as const),
];
/** One query for all would be large. */
const namesAtOnce = 200;

/**
 * Accounts and devices, with their keys. Each change of an account is one atomic update of one document
 * (decisions.md#no-transactions).
 */
export function createAccountStore(open: OpenDocuments) {
  const accounts = open(accountsOf);
  return {
    /** Returns the account or device, or undefined if it has never been used. */
    async findAccount(id: string): Promise<Account | undefined> {
      const found = await accounts.find(id);
      return found && toAccount(found);
    },

    /**
     * Lists accounts and devices whose id begins with `prefix` and comes after `after`, in order of their ids: by code points, which is the
     * order of their bytes in UTF-8. Both texts must be well-formed. An account that is gone (`isGone`) is not listed.
     */
    async listAccounts({ limit, ...page }: AccountPage): Promise<ListedAccount[]> {
      const fields = [...listedFields, 'removal', 'keyUses'] as const;
      const found = await listWanted(
        (query) => accounts.listFields('id', fields, query),
        { ...rangeOf(page), limit },
        (account) => !isGone(account),
      );
      return found.map(({ removal: _, keyUses, ...account }) => {
        const usedAt = lastUseOf(Object.values(keyUses).map((lastUsedAt) => ({ lastUsedAt })));
        return { ...account, ...(usedAt && { usedAt }) };
      });
    },

    /** Lists the accounts whose removal has begun and is not done, in order of their ids, after this one. */
    listRemovals: async ({ after: id, limit }: { after: string; limit: number }): Promise<string[]> =>
      idsOf(await accounts.listFields('removing', ['id', 'removing'], { after: { id, removing: id }, limit })),

    /**
     * Finds the owner of the live key with one of these hashes; returns undefined if there is none. Reads all confirmed changes (in a
     * replica set, from the primary).
     */
    async findKeyOwner(hashes: readonly string[]): Promise<KeyOwner | undefined> {
      const [found] = await accounts.listFields('byKeyHash', ownerFields, { is: [hashes], limit: 1 });
      return found && ownerOf(found, hashes);
    },

    /**
     * Finds the accounts with a key of this id, or with a key that begins like this (`svc_` and up to six characters), in order of their
     * ids. A key that has ended is not found.
     */
    async findAccountsByKey({ limit, ...key }: KeySearch): Promise<string[]> {
      const found =
        'id' in key
          ? accounts.listFields('byKeyId', ['id'], { is: [key.id], limit })
          : accounts.listFields('byKeyStart', ['id'], { from: key.start, to: lastWith(key.start), limit });
      return idsOf(await found);
    },

    /**
     * Changes one account atomically as `decide` returns (`Documents.change`). A change of settings stores its audit record in the same
     * step. Fails with `INTERNAL_ERROR` if the new key's hash is that of another account's key.
     */
    changeAccount: <Result>(id: string, decide: Decide<Account, Result>): Promise<Result> =>
      accounts.change(id, (kept) => {
        const { result, next } = decide(kept && toAccount(kept));
        return { result, ...(next && { next: toDocument({ ...next, id }, kept) }) };
      }),

    /**
     * Removes an account that has not changed since it was read: with the same version, and keys that were not used since, and whose audit
     * records are all copied. Returns false for any other.
     */
    removeAccount: ({ id, version, keys }: Pick<Account, 'id' | 'version' | 'keys'>): Promise<boolean> =>
      accounts.change(id, (kept) => {
        const isSame =
          kept?.version === version &&
          isDeepStrictEqual(lastUseOf(toAccount(kept).keys), lastUseOf(keys)) &&
          kept.outbox.length === 0;
        return isSame ? { result: true, isRemoved: true } : { result: false };
      }),

    /**
     * Records when keys were last used. Does not change a version, and never moves a time backwards. A key that has ended, or that its
     * account does not have, is ignored.
     */
    recordKeyUse: (uses: readonly KeyUse[]): Promise<void> =>
      accounts.noteUses(uses.map(({ account, keyId, at }) => ({ id: account, value: keyId, at }))),

    ...createNames(open),
  };
}

export type AccountStore = ReturnType<typeof createAccountStore>;

/**
 * The display names of accounts (contract.md#si1-sign-in-by-any-provider). A name is in no other place. To keep one is no change of the
 * account: its version stays. Removing an account removes its name in the same step.
 */
function createNames(open: OpenDocuments) {
  const accounts = open(accountsOf);
  return {
    /** Keeps the name of an account. Nothing is written if it is the same, and for an account that does not exist or is removed. */
    async keepName({ id, name }: NamedAccount): Promise<void> {
      await accounts.change(id, (kept) => {
        const isNews = kept !== undefined && kept.removal === undefined && kept.name !== name;
        return { result: undefined, ...(isNews && { next: { ...kept, name, nameStarts: nameStartsOf(name) } }) };
      });
    },

    /** Finds the names of those of these accounts that have one. */
    async findNames(ids: readonly string[]): Promise<ReadonlyMap<string, string>> {
      const found = new Map<string, string>();
      for (let from = 0; from < ids.length; from += namesAtOnce) {
        const piece = await accounts.listFields('id', ['id', 'name'], { is: [ids.slice(from, from + namesAtOnce)] });
        for (const { id, name } of piece) if (name !== undefined) found.set(id, name);
      }
      return found;
    },

    /** Finds accounts with a name that has this text at its beginning or after a space, in any case. In order of their names. */
    async findNamed(text: string, limit: number): Promise<NamedAccount[]> {
      const from = folded(text);
      const found = await accounts.listFields('byName', ['id', 'name'], { from, to: lastNameFrom(from), limit });
      return inOrderOfNames(found.map(({ id, name = '' }) => ({ id, name })));
    },
  };
}

export type NameStore = ReturnType<typeof createNames>;

function idsOf(found: readonly { id: string }[]): string[] {
  return found.map(({ id }) => id);
}

function ownerOf(
  { id: account, keys, guest, topUp, overageTokensMax, ...status }: Pick<AccountDocument, (typeof ownerFields)[number]>,
  hashes: readonly string[],
): KeyOwner | undefined {
  const key = keys.find(({ hash }) => hash !== undefined && hashes.includes(hash));
  if (key === undefined) return undefined;
  const keyScope = isDefaultKey(key) ? {} : { keyScope: scopeOf(key) };
  const own = { ...(overageTokensMax !== undefined && { overageTokensMax }), ...(topUp && { topUp }) };
  return { account, keyId: key.id, ...status, ...own, ...(guest && { guest }), ...keyScope };
}

/**
 * What is kept beside an account in its document, and is no part of its version. `keyUses`: when live keys were last used, by their ids.
 * `outbox`: audit records that are not copied yet. `removing` is the account's own id while its removal is not done. `name` is its display
 * name, which is found by `nameStarts`.
 */
const documentSchema = accountSchema.extend({
  keyUses: z.record(z.string(), date).default({}),
  outbox: z.array(z.looseObject({ id: z.string() })).default([]),
  removing: z.string().optional(),
  name: z.string().optional(),
  nameStarts: z.array(z.string()).default([]),
});

type AccountDocument = z.infer<typeof documentSchema>;

/** A key that has ended has no hash. */
const having = 'hash';

export const accountsOf = {
  name: 'accounts',
  schema: documentSchema,
  id: 'id',
  indexes: {
    byKeyHash: { list: 'keys', field: 'hash', isUnique: true },
    byKeyId: { list: 'keys', field: 'id', having },
    byKeyStart: { list: 'keys', field: 'display', having },
    byName: { list: 'nameStarts' },
    withOutbox: { list: 'outbox', field: 'id' },
    removing: { fields: ['removing'], isSparse: true },
  },
  uses: { field: 'keyUses', index: 'byKeyId' },
  /** They have their keys and their history. */
  atOnce: 20,
} as const satisfies Collection;

function toAccount({ keyUses, outbox, removing, name, nameStarts, ...account }: AccountDocument): Account {
  const keys = account.keys.map((key) => {
    const lastUsedAt = keyUses[key.id];
    return lastUsedAt === undefined ? key : { ...key, lastUsedAt };
  });
  return { ...account, keys };
}

/** Returns the document after a change of the account, with the audit record of the change. */
function toDocument(next: Account, kept: AccountDocument | undefined): AccountDocument {
  const record = newestRecord(next);
  const { name, nameStarts = [], outbox = [] } = kept ?? {};
  return {
    ...next,
    keys: next.keys.map(withoutUse),
    keyUses: {},
    outbox: record === undefined ? outbox : [...outbox, record],
    nameStarts: isRemoved(next) ? [] : nameStarts,
    ...(name !== undefined && !isRemoved(next) && { name }),
    ...(next.removal?.isDone === false && { removing: next.id }),
  };
}

/** The last use of a live key is in `keyUses`: a change must not undo a use. */
function withoutUse(key: Key): Key {
  if (!isLive(key)) return key;
  const { lastUsedAt: _, ...fields } = key;
  return fields;
}

/** An account with its display name. */
export type NamedAccount = { id: string; name: string };

const startsMax = 8;

/** The texts by which a name is found: from its first words on, each to its end. */
function nameStartsOf(name: string): string[] {
  const words = folded(name).split(' ');
  return [...new Set(words.slice(0, startsMax).map((_, index) => words.slice(index).join(' ')))];
}

/** Names that look alike, or differ in case only, are the same here. */
function folded(name: string): string {
  return name.toWellFormed().normalize('NFKC').toLowerCase().replace(/\s+/g, ' ').trim();
}

function inOrderOfNames(accounts: readonly NamedAccount[]): NamedAccount[] {
  return accounts.toSorted((one, other) => compareBytes(one.name, other.name) || compareBytes(one.id, other.id));
}

/** The last text that begins with `start`, in the order of code points. */
function lastNameFrom(start: string): string {
  return `${start}\u{10ffff}`;
}

export type AccountPage = { prefix?: string | undefined; after?: string | undefined; limit: number };

/** A range of ids: from `from` on, or after `after`, and before `before`, if it has an end. */
type IdRange = { from?: string; after?: { id: string }; before: string | undefined };

/**
 * Returns the range of the ids that begin with `prefix` and come after `after`, by code points. It is one range, so that an index finds
 * them.
 */
export function rangeOf({ prefix = '', after }: Omit<AccountPage, 'limit'>): IdRange {
  const before = endOf(prefix);
  if (after === undefined || compareBytes(after, prefix) < 0) return { from: prefix, before };
  return { after: { id: after }, before };
}

const lastPoint = 0x10ffff;

/** A text after all texts of ASCII characters that begin with this one, and before every other text after them. */
function lastWith(start: string): string {
  return `${start}\u007f`;
}

/** Returns the first text after all texts with this prefix, or undefined if there is none. */
function endOf(prefix: string): string | undefined {
  const points = Array.from(prefix, (character) => character.codePointAt(0) ?? 0);
  for (let point = points.pop(); point !== undefined; point = points.pop()) {
    if (point < lastPoint) return String.fromCodePoint(...points, nextPoint(point));
  }
  return undefined;
}

/** Skips the surrogates: half of a surrogate pair is not a character. */
function nextPoint(point: number): number {
  return point === 0xd7ff ? 0xe000 : point + 1;
}
