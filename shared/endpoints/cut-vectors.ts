import { BackendError } from './answers/backend-error.ts';
import { decodeBackendText } from './answers/parse-backend-json.ts';
import type { Vector, VectorCutter } from './definition/answer-format.ts';

type OpenVector = { grammar: VectorGrammar; add: (part: Buffer) => void };

const keyLengthMax = 16;
const partsMax = 1_024;
const byte = {
  quote: 0x22,
  comma: 0x2c,
  colon: 0x3a,
  listOpen: 0x5b,
  backslash: 0x5c,
  listClose: 0x5d,
  open: 0x7b,
  close: 0x7d,
};
const isSpace = (code: number) => code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09;

/**
 * Cuts the vectors out of a list of embeddings while it arrives: the values of `embedding` in the objects of the top-level list `data`.
 * They are checked, and neither parsed nor copied: an answer can have millions of numbers (contract.md#ho2-bytes-of-answers). Whether the
 * rest is JSON is left to its parser. `mark`: a text that no backend can know.
 */
export function createVectorCutter(mark: string): VectorCutter {
  const rest = createParts();
  const vectors: Buffer[][] = [];
  const place = createPlace();
  let vector: OpenVector | undefined;

  /** Returns the index after the part of the vector that these bytes have. */
  function takeVector({ grammar, add }: OpenVector, bytes: Buffer, from: number): number {
    const end = grammar.follow(bytes, from);
    add(end === -1 ? bytes.subarray(from) : bytes.subarray(from, end));
    if (end === -1) return bytes.length;
    vector = undefined;
    return end;
  }

  /** Returns the index at which a vector begins, or the end. */
  function takeRest(bytes: Buffer, from: number): number {
    const at = place.follow(bytes, from);
    if (at > from) rest.add(Buffer.from(bytes.subarray(from, at)));
    if (at === bytes.length) return at;
    const grammar = bytes[at] === byte.quote ? createTextGrammar() : createListGrammar();
    const { parts, add } = createParts();
    vector = { grammar, add };
    rest.add(Buffer.from(JSON.stringify(`${mark}${vectors.length}`)));
    vectors.push(parts);
    return at;
  }

  return {
    take(bytes) {
      try {
        for (let at = 0; at < bytes.length; )
          at = vector === undefined ? takeRest(bytes, at) : takeVector(vector, bytes, at);
      } catch (error) {
        if (error instanceof VectorError) throw new BackendError('unreadable', error.message);
        throw error;
      }
    },
    end() {
      if (vector !== undefined) throw new BackendError('unreadable', 'the answer is not JSON');
      return { text: decodeBackendText(rest.parts), vectors, join: (text, joined) => joinVectors(text, mark, joined) };
    },
  };
}

/** Keeps bytes in the parts in which they come, as long as these are few: each takes a hundred bytes of memory besides its own. */
function createParts() {
  const parts: Buffer[] = [];
  let added = 0;
  return {
    parts,
    add(part: Buffer): void {
      parts.push(part);
      if (++added % partsMax === 0) parts.push(Buffer.concat(parts.splice(-partsMax)));
    },
  };
}

/** Replaces the marks by the vectors. */
function joinVectors(text: string, mark: string, vectors: readonly Vector[]): Buffer[] {
  const parts: Buffer[] = [];
  for (const [index, part] of text.split(new RegExp(`"${mark}(\\d+)"`)).entries()) {
    // Every second part is the number of a vector.
    if (index % 2 === 1) parts.push(...(vectors[Number(part)] ?? []));
    else parts.push(Buffer.from(part));
  }
  return parts;
}

/** Follows where in the answer the bytes are. */
function createPlace() {
  /** By depth, up to the objects of `data`: whether it is an object. */
  const isObject: boolean[] = [];
  let depth = 0;
  let isText = false;
  let isEscaped = false;
  let mayBeKey = false;
  let key: string | undefined;
  let isKeyOpen = false;
  let isInData = false;
  let isAwaited = false;

  const isAtKeys = () => (depth === 1 || (depth === 3 && isInData)) && isObject[depth] === true;

  function takeText(code: number): void {
    if (isEscaped) isEscaped = false;
    else if (code === byte.backslash) isEscaped = true;
    else if (code === byte.quote) {
      isText = false;
      isKeyOpen = false;
      return;
    }
    if (isKeyOpen && key !== undefined && key.length < keyLengthMax) key += String.fromCharCode(code);
  }

  function openText(): void {
    isText = true;
    isKeyOpen = mayBeKey && isAtKeys();
    if (isKeyOpen) key = '';
  }

  function open(code: number): void {
    if (depth === 1 && code === byte.listOpen && key === 'data' && isObject[1] === true && !mayBeKey) isInData = true;
    depth++;
    if (depth <= 3) isObject[depth] = code === byte.open;
    mayBeKey = code === byte.open;
    key = undefined;
  }

  function close(): void {
    depth--;
    mayBeKey = false;
    if (depth <= 1) isInData = false;
  }

  function takeOther(code: number): void {
    if (code === byte.quote) openText();
    else if (code === byte.open || code === byte.listOpen) open(code);
    else if (code === byte.close || code === byte.listClose) close();
    else if (code === byte.comma) mayBeKey = true;
    else if (code === byte.colon && mayBeKey) {
      mayBeKey = false;
      isAwaited = depth === 3 && isAtKeys() && isObject[2] === false && key === 'embedding';
    }
  }

  return {
    /** Returns the index at which a vector begins, or the length. */
    follow(bytes: Uint8Array, from: number): number {
      for (let at = from; at < bytes.length; at++) {
        const code = bytes[at] ?? 0;
        if (isText) takeText(code);
        else if (isAwaited && !isSpace(code)) {
          isAwaited = false;
          if (code === byte.listOpen || code === byte.quote) return at;
          takeOther(code);
        } else takeOther(code);
      }
      return bytes.length;
    },
  };
}

/** Follows the bytes of one vector: a list of numbers (also of lists of numbers), or a text in base64. Keeps none of them. */
interface VectorGrammar {
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

class VectorError extends Error {}

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
function createListGrammar(): VectorGrammar {
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
function createTextGrammar(): VectorGrammar {
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
