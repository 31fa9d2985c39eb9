import { compareBytes } from '../adapters/compare-bytes.ts';

/** An account with its display name. */
export type NamedAccount = { id: string; name: string };

/**
 * The display names of accounts (contract.md#si1-sign-in-by-any-provider). A name is in no other place. To keep one is no change of the
 * account: its version stays. Removing an account removes its name in the same step.
 */
export interface NameStore {
  /** Keeps the name of an account. Nothing is written if it is the same, and for an account that does not exist or is removed. */
  keepName(account: NamedAccount): Promise<void>;
  /** Finds the names of those of these accounts that have one. */
  findNames(accounts: readonly string[]): Promise<ReadonlyMap<string, string>>;
  /** Finds accounts with a name that has this text at its beginning or after a space, in any case. In order of their names. */
  findNamed(start: string, limit: number): Promise<NamedAccount[]>;
}

const startsMax = 8;

/** The texts by which a name is found: from its first words on, each to its end. */
export function nameStartsOf(name: string): string[] {
  const words = folded(name).split(' ');
  return [...new Set(words.slice(0, startsMax).map((_, index) => words.slice(index).join(' ')))];
}

/** Names that look alike, or differ in case only, are the same here. */
export function folded(name: string): string {
  return name.toWellFormed().normalize('NFKC').toLowerCase().replace(/\s+/g, ' ').trim();
}

export function inOrderOfNames(accounts: readonly NamedAccount[]): NamedAccount[] {
  return accounts.toSorted((one, other) => compareBytes(one.name, other.name) || compareBytes(one.id, other.id));
}

/** The last text that begins with `start`, in the order of code points. */
export function lastNameFrom(start: string): string {
  return `${start}\u{10ffff}`;
}
