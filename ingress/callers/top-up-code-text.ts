import { createHash, randomBytes } from 'node:crypto';

/** Crockford's base32: no letter looks like a digit. */
const alphabet = '0123456789ABCDEFGHJKMNPQRSTVWXYZ';
const prefix = 'TOPUP';
const groupLength = 5;
const symbolCount = 30;
/** Every letter but U. Without the flag `i`, under which some letters outside ASCII match, too. */
const typedForm = /^[Tt][Oo][Pp][Uu][Pp][0-9A-TV-Za-tv-z]{30}$/;

/** An example for texts. */
export const topUpCodeForm = 'TOPUP-XXXXX-XXXXX-XXXXX-XXXXX-XXXXX-XXXXX';

/** Makes a new code of 150 random bits, in the form of `topUpCodeForm`. */
export function makeTopUpCode(): string {
  // 256 is a multiple of 32, so no symbol is more frequent than others.
  return inGroups(Array.from(randomBytes(symbolCount), (byte) => alphabet.charAt(byte % alphabet.length)).join(''));
}

/**
 * Reads a code as a person may type it: in any case, with or without dashes and spaces, and with the letters O, I and L for the digits that
 * they look like. Returns it as it was made, or undefined for any other text.
 */
export function readTopUpCode(text: string): string | undefined {
  const typed = text.replace(/[\s\p{Pd}]/gu, '');
  if (!typedForm.test(typed)) return undefined;
  const symbols = typed.slice(prefix.length).toUpperCase().replaceAll('O', '0').replace(/[IL]/g, '1');
  return inGroups(symbols);
}

/** The value that is stored and looked up instead of the code. It needs no pepper, because a code cannot be guessed. */
export function hashTopUpCode(code: string): string {
  return createHash('sha256').update(code).digest('hex');
}

function inGroups(symbols: string): string {
  const groups = symbols.match(new RegExp(`.{${groupLength}}`, 'g')) ?? [];
  return [prefix, ...groups].join('-');
}
