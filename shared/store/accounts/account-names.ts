import { compareBytes } from '../documents/lists.ts';

/** An account with its display name. */
export type NamedAccount = { id: string; name: string };

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

export type AccountPage = { prefix?: string | undefined; after?: string | undefined; limit: number };

/** A range of ids: from `from` on, or after `after`, and before `before`, if it has an end. */
export type IdRange = { from?: string; after?: { id: string }; before: string | undefined };

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
export function lastWith(start: string): string {
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
