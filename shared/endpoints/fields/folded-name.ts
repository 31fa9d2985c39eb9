import type { ValidationIssue } from '../../validation-issues.ts';

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
