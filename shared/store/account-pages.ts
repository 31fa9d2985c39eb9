import { accountSchema } from './accounts/account.ts';
import type { AccountPage } from './store.ts';

export const listedAccountSchema = accountSchema.pick({
  id: true,
  plan: true,
  overageEnabled: true,
  suspended: true,
  createdAt: true,
});

/**
 * The start of a page of ids, including `from` itself if `includesFrom` is set, and the id before which the page ends, if it has an end.
 */
export type IdRange = { from: string; includesFrom: boolean; end: string | undefined };

/**
 * Returns the range of the ids that begin with `prefix` and come after `after`, by code points. It is one range, so that an index finds
 * them.
 */
export function rangeOf({ prefix = '', after }: Omit<AccountPage, 'limit'>): IdRange {
  const end = endOf(prefix);
  if (after === undefined || compareBytes(after, prefix) < 0) return { from: prefix, includesFrom: true, end };
  return { from: after, includesFrom: false, end };
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

function compareBytes(one: string, other: string): number {
  return Buffer.compare(Buffer.from(one), Buffer.from(other));
}
