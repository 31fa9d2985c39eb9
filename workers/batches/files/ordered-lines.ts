import type { Batch } from '../../../shared/batches/batch.ts';
import type { FileLine } from '../../../shared/batches/split-lines.ts';
import { type BatchRules, parseLine, type ReadLine } from './parse-line.ts';
import type { FilePosition, LineCursor } from './read-lines.ts';

/** Lines of one batch that are read ahead, and their bytes. */
const aheadMax = { lines: 256, bytes: 1_048_576 };
/** A line is not passed by more lines behind it: the position of its batch moves on only behind it. */
const passedByMax = 1_024;
/** Bytes of all batches of a worker together. A batch without room reads one line ahead. */
const workerBytesMax = 16_777_216;

/** The bytes that a worker may read ahead of what it queues. */
export function createReadAhead() {
  let held = 0;
  return {
    hasRoom: (bytes: number): boolean => held + bytes <= workerBytesMax,
    add(bytes: number): void {
      held += bytes;
    },
  };
}

export type ReadAhead = ReturnType<typeof createReadAhead>;

type Line = { place: FilePosition; read: ReadLine };
/** `passedBy`: how many lines behind it were passed before it. */
type HeldLine = Line & { bytes: FileLine['bytes']; models: BatchRules['models']; order: string; passedBy: number };

/**
 * The lines of a cursor, those with the same beginning of their prompt one after another, as far as lines are read ahead: so they find it
 * in the prefix cache of their backend (contract.md#af4-affinity-of-a-model). Lines without keys stay in the order of the file.
 */
export function createOrderedLines({
  cursor,
  rules,
  readAhead,
}: {
  cursor: LineCursor;
  rules: () => BatchRules;
  readAhead: ReadAhead;
}) {
  const held: HeldLine[] = [];
  let heldBytes = 0;
  let next: HeldLine | undefined;
  let latestOrder = '';
  let isClosed = false;

  function mayHold(bytes: number): boolean {
    if (held.length === 0) return true;
    return held.length < aheadMax.lines && heldBytes + bytes <= aheadMax.bytes && readAhead.hasRoom(bytes);
  }

  function count(bytes: number): void {
    heldBytes += bytes;
    readAhead.add(bytes);
  }

  async function fill(): Promise<void> {
    for (let found = await cursor.peek(); found !== undefined; found = await cursor.peek()) {
      const { place, read, bytes, models } = found;
      if (isClosed || !mayHold(place.length)) return;
      cursor.pass();
      held.push({ place, read, bytes, models, order: orderOf(read), passedBy: 0 });
      count(place.length);
    }
  }

  /** The plan file may have changed since the line was read. */
  function renew(line: HeldLine): HeldLine {
    const { models } = rules();
    if (line.models === models) return line;
    const { place, bytes } = line;
    return Object.assign(line, { models, read: parseLine({ number: place.line, bytes }, rules()) });
  }

  return {
    /** The next line, the same until `pass`. Undefined at the end. Fails as the store does; the next call tries again. */
    async peek(): Promise<Line | undefined> {
      if (next === undefined) {
        await fill();
        next = nextInTurn(held, latestOrder);
      }
      return next && renew(next);
    },
    pass(): void {
      if (next === undefined || isClosed) return;
      const index = held.indexOf(next);
      for (const line of held.slice(0, index)) line.passedBy++;
      held.splice(index, 1);
      count(-next.place.length);
      latestOrder = next.order;
      next = undefined;
    },
    /** The first line that was not passed. */
    position(): Batch['position'] {
      const first = held.reduce<FilePosition | undefined>(
        (earliest, { place }) => (earliest === undefined || place.line < earliest.line ? place : earliest),
        undefined,
      );
      return first === undefined ? cursor.position() : { line: first.line, byte: first.from };
    },
    isAtEnd: (): boolean => held.length === 0 && cursor.isAtEnd(),
    /** The position stays as it is. */
    async close(): Promise<void> {
      if (!isClosed) count(-heldBytes);
      isClosed = true;
      await cursor.close();
    },
  };
}

/** From the shallowest key on, so that lines with the longest common beginning are next to each other. */
function orderOf(read: ReadLine): string {
  return 'parsed' in read ? (read.parsed.call.affinity?.keys ?? []).join(' ') : '';
}

/** The first line in order from the place that was reached on, else the first of all. The earliest of the file must not wait for long. */
function nextInTurn(held: readonly HeldLine[], reached: string): HeldLine | undefined {
  let [first, behind]: (HeldLine | undefined)[] = [];
  const [earliest] = held;
  if (earliest !== undefined && earliest.passedBy >= passedByMax) return earliest;
  for (const line of held) {
    if (first === undefined || line.order < first.order) first = line;
    if (line.order >= reached && (behind === undefined || line.order < behind.order)) behind = line;
  }
  return behind ?? first;
}
