import type { BatchRetry } from '../../../shared/batches/batch.ts';

/** A line of the file by its bytes, and the number of its next request. */
export type LinePosition = Pick<BatchRetry, 'line' | 'number' | 'failures' | 'losses'> & {
  from: number;
  length: number;
};

/** A line that is not queued. `notBefore` is 0 if it waits only for its turn. */
export type WaitingLine = LinePosition & { model: string; notBefore: number };

/** After an outage, the lines become due over this time, not all at once. */
const wakeWithinMs = 1_000;

/** The lines of one model, which all wait for the same backends. None is due before `firstDue`. */
type Group = { lines: Map<number, WaitingLine>; firstDue: number };

/** The lines of one batch that were read and are not queued. */
export function createWaitingLines(random: () => number = Math.random) {
  const models = new Map<number, string>();
  const groups = new Map<string, Group>();
  let skipped = 0;

  function remove(line: WaitingLine): WaitingLine {
    models.delete(line.line);
    groups.get(line.model)?.lines.delete(line.line);
    if (line.notBefore === 0) skipped--;
    return line;
  }

  function put(line: WaitingLine): void {
    const before = groups.get(models.get(line.line) ?? '')?.lines.get(line.line);
    if (before !== undefined) remove(before);
    const group = groups.get(line.model) ?? { lines: new Map(), firstDue: Number.POSITIVE_INFINITY };
    groups.set(line.model, group);
    models.set(line.line, line.model);
    group.lines.set(line.line, line);
    group.firstDue = Math.min(group.firstDue, line.notBefore);
    if (line.notBefore === 0) skipped++;
  }

  return {
    put,
    has: (line: number): boolean => models.has(line),
    /** Removes and returns a line that is due. Calls `mayQueue` with one line of each model. */
    takeDue(now: number, mayQueue: (line: WaitingLine) => boolean): WaitingLine | undefined {
      for (const group of groups.values()) {
        const first = firstOf(group);
        if (first === undefined || now < group.firstDue || !mayQueue(first)) continue;
        const due = dueIn(group, now);
        if (due !== undefined) return remove(due);
      }
      return undefined;
    },
    /** Removes and returns a line of a model that fits, even if the line is not due. */
    takeAny(fits: (line: WaitingLine) => boolean): WaitingLine | undefined {
      for (const group of groups.values()) {
        const first = firstOf(group);
        if (first !== undefined && fits(first)) return remove(first);
      }
      return undefined;
    },
    /** The backends of this model are available again, so its lines do not wait for their time. */
    wake(model: string, now: number): void {
      for (const line of [...(groups.get(model)?.lines.values() ?? [])]) {
        const soon = now + random() * wakeWithinMs;
        if (line.notBefore > soon) put({ ...line, notBefore: soon });
      }
    },
    /** The number of lines that wait only for their turn. */
    skipped: (): number => skipped,
    *all(): Iterable<WaitingLine> {
      for (const { lines } of groups.values()) yield* lines.values();
    },
    size: (): number => models.size,
  };
}

export type WaitingLines = ReturnType<typeof createWaitingLines>;

function firstOf({ lines }: Group): WaitingLine | undefined {
  return lines.values().next().value;
}

/** Returns a due line, or notes when the first one becomes due. */
function dueIn(group: Group, now: number): WaitingLine | undefined {
  let firstDue = Number.POSITIVE_INFINITY;
  for (const line of group.lines.values()) {
    if (line.notBefore <= now) return line;
    firstDue = Math.min(firstDue, line.notBefore);
  }
  group.firstDue = firstDue;
  return undefined;
}
