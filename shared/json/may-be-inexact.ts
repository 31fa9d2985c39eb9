/**
 * Returns whether this JSON may have a number that `JSON.parse` changes: one with more digits than a JavaScript number keeps, or with an
 * exponent out of range. Digits in strings count as well. Four megabytes take a few milliseconds, for any content.
 */
export function mayBeInexact(text: string): boolean {
  return hasLongNumber(text) || largeExponent.test(text);
}

const largeExponent = /[eE](?<=\d[eE])[+-]?\d{3}/;
const longNumber = 16;

/** Returns whether a digit is followed by 15 digits or points. Every such run includes at least one of the positions that are checked. */
function hasLongNumber(text: string): boolean {
  for (let at = longNumber - 1; at < text.length; at += longNumber) {
    if (!isDigit(text, at) && !isPoint(text, at)) continue;
    let from = at;
    while (isDigit(text, from - 1) || isPoint(text, from - 1)) from--;
    while (isDigit(text, at + 1) || isPoint(text, at + 1)) at++;
    while (isPoint(text, from)) from++;
    if (at - from >= longNumber - 1) return true;
  }
  return false;
}

function isDigit(text: string, at: number): boolean {
  const unit = text.charCodeAt(at);
  return unit >= 0x30 && unit <= 0x39;
}

function isPoint(text: string, at: number): boolean {
  return text.charCodeAt(at) === 0x2e;
}
