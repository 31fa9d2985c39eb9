import type { BatchRetry } from '../../../shared/batches/batch.ts';

/** A line of the file by where it stands, and which of its requests is the next. */
export type LinePosition = Pick<BatchRetry, 'line' | 'number' | 'failures' | 'losses'> & {
  from: number;
  length: number;
};

/** A line that is not queued. It waits for its time, which is 0 where it only waits for its turn. */
export type WaitingLine = LinePosition & { model: string; notBefore: number };

/** The lines of one batch that were read and are not queued. */
export interface WaitingLines {
  put(line: WaitingLine): void;
  has(line: number): boolean;
  /** Takes one out whose time has come; `mayQueue` is asked for one line of each model. */
  takeDue(now: number, mayQueue: (line: WaitingLine) => boolean): WaitingLine | undefined;
  /** Takes one of a model that fits, whatever its time. */
  takeAny(fits: (line: WaitingLine) => boolean): WaitingLine | undefined;
  /** What waits for the backends of this model need not wait any longer. */
  wake(model: string, now: number): void;
  /** Those that wait for their turn alone. */
  passedOver(): number;
  all(): Iterable<WaitingLine>;
  size(): number;
}

/** After an outage they do not come all at once. */
const wakeWithinMs = 1_000;

/** Lines that ask one model, all of which wait for the same. None is due before `firstDue`. */
type Group = { lines: Map<number, WaitingLine>; firstDue: number };

export function createWaitingLines(random: () => number = Math.random): WaitingLines {
  const models = new Map<number, string>();
  const groups = new Map<string, Group>();
  let passedOver = 0;

  function remove(line: WaitingLine): WaitingLine {
    models.delete(line.line);
    groups.get(line.model)?.lines.delete(line.line);
    if (line.notBefore === 0) passedOver--;
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
    if (line.notBefore === 0) passedOver++;
  }

  function firstOf({ lines }: Group): WaitingLine | undefined {
    return lines.values().next().value;
  }

  function dueIn(group: Group, now: number): WaitingLine | undefined {
    let firstDue = Number.POSITIVE_INFINITY;
    for (const line of group.lines.values()) {
      if (line.notBefore <= now) return line;
      firstDue = Math.min(firstDue, line.notBefore);
    }
    group.firstDue = firstDue;
    return undefined;
  }

  return {
    put,
    has: (line) => models.has(line),
    takeDue(now, mayQueue) {
      for (const group of groups.values()) {
        const first = firstOf(group);
        if (first === undefined || now < group.firstDue || !mayQueue(first)) continue;
        const due = dueIn(group, now);
        if (due !== undefined) return remove(due);
      }
      return undefined;
    },
    takeAny(fits) {
      for (const group of groups.values()) {
        const first = firstOf(group);
        if (first !== undefined && fits(first)) return remove(first);
      }
      return undefined;
    },
    wake(model, now) {
      for (const line of [...(groups.get(model)?.lines.values() ?? [])]) {
        const soon = now + random() * wakeWithinMs;
        if (line.notBefore > soon) put({ ...line, notBefore: soon });
      }
    },
    passedOver: () => passedOver,
    *all() {
      for (const { lines } of groups.values()) yield* lines.values();
    },
    size: () => models.size,
  };
}
