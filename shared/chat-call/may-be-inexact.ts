/**
 * Whether a number in this JSON may be one that `JSON.parse` does not keep as it is: of more digits than a JavaScript number keeps,
 * or with an exponent beyond its own. Strings count as well. Four megabytes take a few milliseconds, whatever they hold.
 */
export function mayBeInexact(text: string): boolean {
  return hasLongNumber(text) || largeExponent.test(text);
}

const largeExponent = /[eE](?<=\d[eE])[+-]?\d{3}/;
const longNumber = 16;

/** Whether 15 digits or points follow a digit. A run of so many cannot lie between two of the places that are looked at. */
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
