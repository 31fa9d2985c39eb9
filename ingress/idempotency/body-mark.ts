import { createHmac } from 'node:crypto';
import { type ClaimOwner, derivedKey } from '../../shared/jobs/idempotency.ts';

/**
 * Returns the marks of a body, one under each pepper in use (base64url). Equal bodies have equal marks; who reads Redis alone cannot tell
 * from a mark whether a guessed body is the one. `body`: its canonical text.
 */
export function bodyMarks(
  peppers: readonly string[],
  owner: ClaimOwner,
  { endpoint, body }: { endpoint: string; body: string },
): [string, ...string[]] {
  const mark = (pepper: string) =>
    createHmac('sha256', derivedKey(pepper, 'body', owner))
      .update(`${endpoint}\0${body}`)
      .digest('base64url');
  const [first, ...others] = peppers;
  if (first === undefined) throw new Error('no pepper to mark a body with');
  return [mark(first), ...others.map(mark)];
}

/** Returns the same text for the same JSON value, whatever the order of its members and its spaces. */
export function canonicalJson(value: unknown): string {
  return JSON.stringify(inOrder(value));
}

/** Recursive: JSON is bounded in depth before it is parsed. A list of plain values stays as it is: it may have millions of numbers. */
function inOrder(value: unknown): unknown {
  if (Array.isArray(value)) return value.some(isNested) ? value.map(inOrder) : value;
  return isPlainObject(value) ? membersInOrder(value) : value;
}

function isNested(value: unknown): boolean {
  return typeof value === 'object' && value !== null;
}

function isPlainObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !isRawNumber(value);
}

/** A number in the text of its client: it is written as it is. */
function isRawNumber(value: object): boolean {
  return (JSON as unknown as { isRawJSON(value: object): boolean }).isRawJSON(value); // not in TypeScript's library yet
}

function membersInOrder(members: Record<string, unknown>): Record<string, unknown> {
  const sorted = Object.entries(members)
    .sort(([one], [other]) => (one < other ? -1 : 1))
    .map(([name, value]) => [name, inOrder(value)]);
  // Without a prototype, so that a member named `__proto__` stays a member.
  return Object.assign(Object.create(null) as Record<string, unknown>, Object.fromEntries(sorted));
}
