const textMax = 120;
const partMax = 40;
/** A key of which each character may be percent-encoded, also more than once. Its first characters are enough to know it by. */
const keyLike =
  /(?:s|%(?:25)*73)(?:v|%(?:25)*76)(?:c|%(?:25)*63)(?:_|%(?:25)*5[fF])(?:[0-9A-Za-z]|%(?:25)*[0-9A-Fa-f]{2})+/g;

/**
 * A path or a name that a client sent, as an error may repeat it: short, visible ASCII, and with no whole key or token in it. The
 * error may be logged where they must not be.
 */
export function shownText(text: string): string {
  const visible = text
    .slice(0, 10 * textMax)
    .replace(/[^\x21-\x7e]/g, '?')
    .replace(keyLike, 'svc_…');
  return shortened(
    visible
      .split('/')
      .map((part) => shortened(part, partMax))
      .join('/'),
    textMax,
  );
}

function shortened(text: string, lengthMax: number): string {
  return text.length > lengthMax ? `${text.slice(0, lengthMax)}…` : text;
}
