import type { ValidationIssue } from '../../errors.ts';

const plainName = /^[a-z0-9_]*$/;
const nameLengthMax = 32;

/**
 * Returns the name of a field as servers written in Go compare it: encoding/json matches names case-insensitively, with Unicode folding. A
 * name of more than 32 characters matches no known field and is returned unchanged.
 */
export function foldedName(name: string): string {
  return name.length > nameLengthMax || plainName.test(name) ? name : name.toUpperCase().toLowerCase();
}

/** A server written in Go uses the last of `type` and `Type`. */
export function* misspeltTypes(
  object: Readonly<Record<string, unknown>>,
  { path, refused }: { path: string; refused: string },
): Generator<ValidationIssue> {
  for (const name in object) {
    if (name !== 'type' && foldedName(name) === 'type') {
      yield { path: `${path}.${name}`, message: 'must be spelled type', refused };
    }
  }
}

/** Shorter names are near too many others. */
const nearLengthMin = 3;

/** Returns the known name that differs from this one by one letter. */
export function nearName(field: string, known: Iterable<string>): string | undefined {
  for (const name of known) if (name.length >= nearLengthMin && isOneLetterOff(field, name)) return name;
  return undefined;
}

/** Whether two names differ by one letter: one more, one less, another one, or two neighbours in the other order. */
export function isOneLetterOff(one: string, other: string): boolean {
  if (Math.abs(one.length - other.length) > 1 || one === other) return false;
  let same = 0;
  while (one[same] !== undefined && one[same] === other[same]) same++;
  const rest = (text: string, from: number) => text.slice(same + from);
  if (one.length !== other.length) {
    return one.length > other.length ? rest(one, 1) === rest(other, 0) : rest(one, 0) === rest(other, 1);
  }
  const isSwapped = one[same] === other[same + 1] && one[same + 1] === other[same];
  return rest(one, 1) === rest(other, 1) || (isSwapped && rest(one, 2) === rest(other, 2));
}
