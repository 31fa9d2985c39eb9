import { shorten } from '../../shared/json/json-values.ts';

const textMax = 120;
const partMax = 40;
/** Longer than all known field names. */
const fieldNameMax = 32;
/** A key in which each character may be percent-encoded, also repeatedly. */
const keyLike =
  /(?:s|%(?:25)*73)(?:v|%(?:25)*76)(?:c|%(?:25)*63)(?:_|%(?:25)*5[fF])(?:[0-9A-Za-z]|%(?:25)*[0-9A-Fa-f]{2})+/g;
/** A top-up code, as it may be typed. */
const codeLike = /TOPUP-?[0-9A-Z-]+/gi;

/**
 * Makes a path or name from a client safe to repeat in an error (contract.md#b12-hints-in-a-404): short, visible ASCII, without a complete
 * key, token or top-up code. Errors may be logged in places where keys and tokens must not appear.
 */
export function shownText(text: string): string {
  const visible = text
    .slice(0, 10 * textMax)
    .replace(/[^\x21-\x7e]/g, '?')
    .replace(keyLike, 'svc_…')
    .replace(codeLike, 'TOPUP-…');
  return shorten(
    visible
      .split('/')
      .map((part) => shorten(part, partMax))
      .join('/'),
    textMax,
  );
}

/** Shortens the name of a field from a client: an unknown name could be the complete body. */
export function shownFieldName(name: string): string {
  return shorten(name, fieldNameMax);
}
