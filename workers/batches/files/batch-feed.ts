import type { Batch, BatchRetry } from '../../../shared/batches/batch.ts';
import { validationError } from '../../../shared/errors.ts';
import type { Store } from '../../../shared/store/records/store.ts';
import { requestIdOf } from '../lines/batch-job.ts';
import { createOrderedLines, type ReadAhead } from './ordered-lines.ts';
import { type LineRules, type ParsedLine, parseLine, type ReadLine, type RefusedLine } from './parse-line.ts';
import { createLineCursor, readLine } from './read-lines.ts';
import { createWaitingLines, type LinePosition, type WaitingLine, type WaitingLines } from './waiting-lines.ts';

/** A line to queue now. */
export type NextLine = LinePosition & ParsedLine & { requestId: string };

/** A line that ends with an error, and does not run. */
export type RefusedNextLine = LinePosition & RefusedLine & { requestId: string };

export function isRefused(line: NextLine | RefusedNextLine): line is RefusedNextLine {
  return 'refused' in line;
}

/**
 * Whether a line for a model may be queued. `wait`: not before others are done; `skip`: no, but lines for other models may; `probe`: the
 * model is unavailable, and one line may find out whether it still is.
 */
export type MayQueue = (model: string) => 'yes' | 'wait' | 'skip' | 'probe';

/** Limits how many lines are read and skipped because of their model: as many as a file may have. */
const skippedMax = 50_000;

/** The lines of one running batch that are not done: those of its file, and those to run again. Belongs to one worker. */
export function createBatchFeed(deps: {
  batch: Batch;
  /** The lines from the batch's position on that have a result. */
  endedLines: readonly number[];
  /** The lines that were tried before. */
  retries: readonly BatchRetry[];
  files: Store['files'];
  rules: () => LineRules;
  readAhead: ReadAhead;
}) {
  const { batch, endedLines, retries, files } = deps;
  const { id, inputFile, position: start } = batch;
  const rules = () => ({ ...deps.rules(), endpoint: batch.endpoint });
  const withResult = new Set(endedLines);
  const tried = new Map(retries.map((retry) => [retry.line, retry]));
  const waiting = createWaitingLines();
  const takenOut = new Map<number, Omit<WaitingLine, 'notBefore'>>();
  let endedNow: number[] = [];
  const isToSkip = (line: number) => withResult.delete(line) || takenOut.has(line) || waiting.has(line);
  const cursor = createLineCursor({ files, inputFile, start, rules, isToSkip });
  const lines = createOrderedLines({ cursor, rules, readAhead: deps.readAhead });

  async function nextWaiting(now: number, mayQueue: MayQueue): Promise<NextLine | RefusedNextLine | undefined> {
    const due = takeWaiting(waiting, now, mayQueue);
    if (due === undefined) return undefined;
    takenOut.set(due.line, due);
    try {
      return toQueue(id, due, parseLine(await readLine(files, inputFile, { ...due, number: due.line }), rules()));
    } catch (error) {
      takenOut.delete(due.line);
      waiting.put(due);
      throw error;
    }
  }

  async function nextOfFile(mayQueue: MayQueue): Promise<NextLine | RefusedNextLine | undefined> {
    while (waiting.skipped() < skippedMax) {
      const found = await lines.peek();
      if (found === undefined) return undefined;
      const { read } = found;
      const line = { number: 1, failures: 0, losses: 0, ...found.place, model: modelOf(read) };
      const earlier = tried.get(line.line);
      const verdict = 'parsed' in read ? mayQueue(line.model) : 'yes';
      if (earlier === undefined && verdict === 'wait') return undefined;
      lines.pass();
      tried.delete(line.line);
      if (earlier === undefined && verdict === 'yes') {
        takenOut.set(line.line, line);
        return toQueue(id, line, read);
      }
      waiting.put({ ...line, ...earlier, notBefore: earlier?.notBefore.getTime() ?? 0 });
    }
    return undefined;
  }

  return {
    /**
     * Takes the next line out, which then belongs to the caller until `ended` or `retry`. Undefined if no line may be queued now. Fails as
     * the store does, and then takes no line out.
     */
    next: async (now: number, mayQueue: MayQueue): Promise<NextLine | RefusedNextLine | undefined> =>
      (await nextWaiting(now, mayQueue)) ?? (await nextOfFile(mayQueue)),
    /** A line that was taken out has a result. */
    ended(line: number): void {
      if (takenOut.delete(line)) endedNow.push(line);
    },
    /** The lines that have ended since the last call. */
    takeEnded(): number[] {
      const ended = endedNow;
      endedNow = [];
      return ended;
    },
    /** A line that was taken out comes back, to be tried again. Has no effect on any other line. */
    retry({ line, number, failures, losses, notBefore }: BatchRetry): void {
      const taken = takenOut.get(line);
      if (taken === undefined) return;
      takenOut.delete(line);
      waiting.put({ ...taken, number, failures, losses, notBefore: notBefore.getTime() });
    },
    /** The backends of this model are available again, so its lines do not wait for their time. */
    wake: waiting.wake,
    /** The first line that may have no result, and its first byte. */
    position: (): Batch['position'] => firstOf(lines.position(), takenOut.values(), waiting.all()),
    /** Whether no line is left to take out, and none that was taken out is left. */
    isDone: (): boolean => lines.isAtEnd() && takenOut.size === 0 && waiting.size() === 0,
    close: lines.close,
  };
}

export type BatchFeed = ReturnType<typeof createBatchFeed>;

/** Lines of an unavailable model do not become due. One of them probes the model now and then. */
function takeWaiting(waiting: WaitingLines, now: number, mayQueue: MayQueue): WaitingLine | undefined {
  const due = waiting.takeDue(now, ({ model }) => mayQueue(model) === 'yes');
  return due ?? waiting.takeAny(({ model }) => mayQueue(model) === 'probe');
}

function modelOf(read: ReadLine): string {
  return 'parsed' in read ? read.parsed.call.model : '';
}

function toQueue(batch: string, place: LinePosition, read: ReadLine): NextLine | RefusedNextLine {
  const requestId = requestIdOf(batch, place.line, place.number);
  if ('parsed' in read) return { ...place, ...read.parsed, requestId };
  if ('refused' in read) return { ...place, ...read, requestId };
  // Its file was valid: another process has other limits of JSON.
  const issues = read.faults.map(({ param, message }) => ({ path: param ?? 'line', message }));
  return { ...place, customId: '', refused: validationError(issues), requestId };
}

function firstOf(position: Batch['position'], ...others: Iterable<LinePosition>[]): Batch['position'] {
  let first = { line: position.line, byte: position.byte };
  for (const lines of others) {
    for (const { line, from } of lines) if (line < first.line) first = { line, byte: from };
  }
  return first;
}
