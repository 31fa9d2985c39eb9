import fc from 'fast-check';
import { type FuzzTarget, inputBytesMax } from './fuzz-target.ts';
import type { Seed } from './kept-seeds.ts';

/** `from`: the seed's name, or `structured`. */
export type FuzzInput = { from: string; edits: readonly Edit[]; bytes: Buffer };

/** Positions are taken modulo the input's length, so that each fits every input. */
type Edit = { at: number } & (
  | { kind: 'flip'; bit: number }
  | { kind: 'remove'; length: number }
  | { kind: 'insert'; piece: Uint8Array }
  | { kind: 'repeat'; length: number; times: number }
  | { kind: 'splice'; removed: number; seed: string; start: number; piece: Uint8Array }
  | { kind: 'word'; removed: number; word: string }
);

const editsMax = 8;

/** Kept seeds with a few edits, and structured inputs with and without edits. A failure shrinks to few edits of an early seed. */
export function mutatedInputs(
  { words, structured, bytesMax = inputBytesMax }: Pick<FuzzTarget, 'words' | 'structured' | 'bytesMax'>,
  seeds: readonly Seed[],
): fc.Arbitrary<FuzzInput> {
  const edit = editsOf(words, seeds);
  // After many edits hardly any input is read to its end.
  const edits = fc.oneof(
    { weight: 3, arbitrary: fc.tuple(edit) },
    { weight: 1, arbitrary: fc.array(edit, { minLength: 1, maxLength: editsMax }) },
  );
  const edited = (from: string, bytes: Uint8Array, edits: readonly Edit[]) => ({
    ...{ from, edits },
    bytes: edits.reduce<Buffer>(applyEdit, Buffer.from(bytes)).subarray(0, bytesMax),
  });
  const mutated = fc
    .tuple(fc.constantFrom(...seeds), edits)
    .map(([{ name, bytes }, edits]) => edited(name, bytes, edits));
  if (structured === undefined) return mutated;
  const plain = structured.map((bytes) => edited('structured', bytes, []));
  const changed = fc.tuple(structured, edits).map(([bytes, edits]) => edited('structured', bytes, edits));
  return fc.oneof(
    { weight: 4, arbitrary: mutated },
    { weight: 2, arbitrary: plain },
    { weight: 1, arbitrary: changed },
  );
}

const positions = fc.nat(inputBytesMax - 1);
/** Usually short. A long one takes a large part of a seed. */
const lengths = fc.oneof(
  { weight: 3, arbitrary: fc.constant(0) },
  { weight: 5, arbitrary: fc.nat(8) },
  { weight: 1, arbitrary: fc.nat(4_096) },
);
const repeats = fc.oneof(
  { weight: 15, arbitrary: fc.integer({ min: 1, max: 4 }) },
  fc.integer({ min: 1, max: 10_000 }),
);

const atLeastOne = (length: number) => Math.max(1, length);

function editsOf(words: readonly string[], seeds: readonly Seed[]): fc.Arbitrary<Edit> {
  const splice = fc.record({ seed: fc.constantFrom(...seeds), start: positions, length: lengths, removed: lengths });
  const at = positions;
  return fc.oneof(
    fc.record({ kind: fc.constant('flip' as const), at, bit: fc.nat(7) }),
    fc.record({ kind: fc.constant('remove' as const), at, length: lengths.map(atLeastOne) }),
    fc.record({ kind: fc.constant('insert' as const), at, piece: fc.uint8Array({ maxLength: 8 }) }),
    fc.record({ kind: fc.constant('repeat' as const), at, length: lengths.map(atLeastOne), times: repeats }),
    fc.tuple(at, splice).map(([at, { seed, start, length, removed }]) => {
      const from = start % (seed.bytes.length + 1);
      const piece = seed.bytes.subarray(from, from + length);
      return { kind: 'splice' as const, at, removed, seed: seed.name, start: from, piece };
    }),
    fc.record({ kind: fc.constant('word' as const), at, removed: lengths, word: fc.constantFrom(...words) }),
  );
}

function applyEdit(bytes: Buffer, edit: Edit): Buffer {
  const at = edit.at % (bytes.length + 1);
  const { removed, piece } = changeBy(edit, bytes, at);
  return Buffer.concat([bytes.subarray(0, at), piece, bytes.subarray(at + removed)]).subarray(0, inputBytesMax);
}

function changeBy(edit: Edit, bytes: Buffer, at: number): { removed: number; piece: Uint8Array } {
  switch (edit.kind) {
    case 'flip':
      return { removed: 1, piece: Uint8Array.of((bytes[at] ?? 0) ^ (1 << edit.bit)) };
    case 'remove':
      return { removed: edit.length, piece: Buffer.alloc(0) };
    case 'insert':
      return { removed: 0, piece: edit.piece };
    case 'repeat': {
      const slice = bytes.subarray(at, at + edit.length);
      const times = Math.min(edit.times, Math.ceil(inputBytesMax / Math.max(1, slice.length)));
      return { removed: 0, piece: Buffer.concat(Array.from({ length: times }, () => slice)) };
    }
    case 'splice':
      return { removed: edit.removed, piece: edit.piece };
    case 'word':
      return { removed: edit.removed, piece: Buffer.from(edit.word) };
  }
}

/** One line, such as `flip bit 3 at 17`. */
export function describeEdit(edit: Edit): string {
  switch (edit.kind) {
    case 'flip':
      return `flip bit ${edit.bit} at ${edit.at}`;
    case 'remove':
      return `remove ${edit.length} bytes at ${edit.at}`;
    case 'insert':
      return `insert ${edit.piece.length} bytes at ${edit.at}`;
    case 'repeat':
      return `repeat ${edit.length} bytes at ${edit.at}, ${edit.times} times`;
    case 'splice':
      return `replace ${edit.removed} bytes at ${edit.at} by ${edit.piece.length} of ${edit.seed} from ${edit.start}`;
    case 'word':
      return `replace ${edit.removed} bytes at ${edit.at} by ${JSON.stringify(edit.word)}`;
  }
}
