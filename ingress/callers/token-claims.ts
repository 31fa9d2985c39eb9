import { isObject } from '../../shared/json/json-values.ts';

/** A value that a claim of a token must have. */
export type ClaimRule = { claim: string; value: string };

/**
 * Returns a claim by its name, in which a dot is a path: `realm_access.roles`. A claim whose own name has dots
 * (`https://example.com/roles`) comes first, at each level. Inherited properties are not claims.
 */
export function claimNamed(claims: object, name: string): unknown {
  const own = Object.getOwnPropertyDescriptor(claims, name);
  if (own !== undefined) return own.value;
  for (let dot = name.lastIndexOf('.'); dot > 0; dot = name.lastIndexOf('.', dot - 1)) {
    const outer: unknown = Object.getOwnPropertyDescriptor(claims, name.slice(0, dot))?.value;
    const inner = isObject(outer) ? claimNamed(outer, name.slice(dot + 1)) : undefined;
    if (inner !== undefined) return inner;
  }
  return undefined;
}

/** Whether a token obeys one of these rules. `scope` stands for both names of that claim. */
export function obeysAny(claims: object, rules: readonly ClaimRule[]): boolean {
  return rules.some(({ claim, value }) => {
    const names = claim === 'scope' ? ['scope', 'scp'] : [claim];
    return names.some((name) => has(claimNamed(claims, name), value));
  });
}

/**
 * A claim has several values as words in a text, as items of a list, or as keys of an object. A key whose value is `false`, null, 0 or
 * empty text does not count.
 */
function has(claim: unknown, value: string): boolean {
  if (typeof claim === 'string') return claim === value || claim.split(' ').includes(value);
  if (Array.isArray(claim)) return claim.includes(value);
  return isObject(claim) && Object.hasOwn(claim, value) && Boolean(claim[value]);
}

const nameLengthMax = 100;
/** Characters that would break a line, or reverse the text around the name. */
const unshown = /[\p{Cc}\p{Zl}\p{Zp}\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\s]+/gu;

/** Returns a name to show in one line, of at most 100 characters. Undefined if the claim is not such a text. */
export function displayNameIn(claim: unknown): string | undefined {
  if (typeof claim !== 'string') return undefined;
  const shown = claim
    .slice(0, 4 * nameLengthMax)
    .toWellFormed()
    .replace(unshown, ' ')
    .trim();
  const name = Array.from(shown).slice(0, nameLengthMax).join('').trim();
  return name === '' ? undefined : name;
}
