/** Follows the bytes of one vector: a list of numbers (also of lists of numbers), or a text in base64. Keeps none of them. */
export interface VectorGrammar {
  /**
   * Returns the index after the last byte of the vector, or -1 if it does not end in these bytes. Fails at a byte that JSON does not allow.
   */
  follow(bytes: Buffer, from: number): number;
}

const classOf = new Uint8Array(256).fill(13);
const classes = [' \t\n\r', '[', ']', ',', '-', '0', '123456789', '.', 'eE', '+', 'n', 'u', 'l'];
for (const [index, characters] of classes.entries()) for (const byte of Buffer.from(characters)) classOf[byte] = index;
const classCount = classes.length + 1;
const [opening, closing] = [1, 2];

/**
 * The grammar of numbers and lists (RFC 8259), one row for each state: the next state by class of the byte. `x` is an error. `a`: a value
 * or the end may follow. `b`: a value. `c`: a comma or the end. `d` to `k`: within a number. `l` to `n`: within `null`.
 */
const rows = {
  //   sp[]  ,  -  0  1  .  e  +  n  u  l  other
  a: 'a a c x d e f x x x l x x x',
  b: 'b a x x d e f x x x l x x x',
  c: 'c x c b x x x x x x x x x x',
  d: 'x x x x x e f x x x x x x x',
  e: 'c x c b x x x g i x x x x x',
  f: 'c x c b x f f g i x x x x x',
  g: 'x x x x x h h x x x x x x x',
  h: 'c x c b x h h x i x x x x x',
  i: 'x x x x j k k x x j x x x x',
  j: 'x x x x x k k x x x x x x x',
  k: 'c x c b x k k x x x x x x x',
  l: 'x x x x x x x x x x x m x x',
  m: 'x x x x x x x x x x x x n x',
  n: 'x x x x x x x x x x x x c x',
};
const names = Object.keys(rows);
const error = 255;
const nextState = Uint8Array.from(
  Object.values(rows).flatMap((row) => row.split(' ').map((name) => (name === 'x' ? error : names.indexOf(name)))),
);

/** Lists in lists: vectors of several tokens. */
const depthMax = 8;
const [quote, backslash, space, tilde] = [0x22, 0x5c, 0x20, 0x7e];

export class VectorError extends Error {}

const beforeValue = names.indexOf('b');
const comma = 3;
/** Numbers, each with its comma. A regular expression follows them five times faster than the table does. */
const numbers = /(?:-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?[ \t\n\r]*,[ \t\n\r]*)*/y;
/** The first is short: elsewhere there may be few numbers. */
const windowBytes = { first: 256, largest: 16_384 };

/** Returns the index after the numbers that begin here, each of which has its comma within these bytes. */
function skipNumbers(bytes: Buffer, from: number): number {
  let at = from;
  for (let window = windowBytes.first; ; window = Math.min(4 * window, windowBytes.largest)) {
    numbers.lastIndex = 0;
    numbers.test(bytes.toString('latin1', at, at + window));
    at += numbers.lastIndex;
    if (numbers.lastIndex < window / 2) return at;
  }
}

/** Follows a list from its opening bracket on. A byte of numbers takes about 2 ns. */
export function createListGrammar(): VectorGrammar {
  let state = beforeValue;
  let depth = 0;
  return {
    follow(bytes, from) {
      for (let at = from; at < bytes.length; at++) {
        const kind = classOf[bytes[at] ?? 0] ?? 0;
        state = nextState[state * classCount + kind] ?? error;
        if (state === error) throw new VectorError('a vector is not JSON');
        if (kind === opening && ++depth > depthMax) throw new VectorError('a vector is nested too deeply');
        if (kind === closing && --depth === 0) return at + 1;
        if (kind === comma) at = skipNumbers(bytes, at + 1) - 1;
      }
      return -1;
    },
  };
}

/** Follows a text from its quote on. It has no escapes and no other characters than ASCII, as base64 has not. */
export function createTextGrammar(): VectorGrammar {
  let hasBegun = false;
  return {
    follow(bytes, from) {
      let at = from;
      if (!hasBegun) at++;
      hasBegun = true;
      for (; at < bytes.length; at++) {
        const byte = bytes[at] ?? 0;
        if (byte === quote) return at + 1;
        if (byte < space || byte > tilde || byte === backslash) throw new VectorError('a vector is no base64');
      }
      return -1;
    },
  };
}
