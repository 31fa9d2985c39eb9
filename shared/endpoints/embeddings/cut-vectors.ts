import { BackendError } from '../answers/backend-error.ts';
import { decodeBackendText } from '../answers/parse-backend-json.ts';
import type { Vector, VectorCutter } from '../definition/answer-format.ts';
import { createListGrammar, createTextGrammar, VectorError, type VectorGrammar } from './vector-grammar.ts';

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
