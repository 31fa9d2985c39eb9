import type { Batch, BatchRetry } from '../../../shared/batches/batch.ts';
import type { FileLine } from '../../../shared/batches/split-lines.ts';
import type { Store } from '../../../shared/store/store.ts';
import { type LineRules, type ParsedLine, parseLine, type Refused, rulesOf } from '../files/parse-line.ts';
import { readLine, readLines } from '../files/read-lines.ts';
import { requestIdOf } from '../lines/ids.ts';
import type { ModelHealth } from './model-health.ts';
import { createWaitingLines, type LinePosition, type WaitingLine } from './waiting-lines.ts';

/** A line that is in its queue, in a worker's hands, or put off by one for a while. `since` is when it was last heard of. */
export type LineInHand = Omit<WaitingLine, 'notBefore'> & {
  requestId: string;
  customId: string;
  state: 'queued' | 'started' | 'put off';
  since: number;
};

/** A line that is to be queued now. */
export type NextLine = LinePosition & ParsedLine & { requestId: string };

/** A line that was right when its file was looked at, and no more since the plan file has changed. */
export type WrongLine = LinePosition & Refused & { requestId: string };

export function isWrong(line: NextLine | WrongLine): line is WrongLine {
  return 'faults' in line;
}

/** Whether a line for a model may be queued: yes; not before others are done; or not, but those for other models may. */
export type MayQueue = (model: string) => 'yes' | 'wait' | 'pass over';

/** What is left to do of one running batch: from its file, line by line, and what has to be run again. Held by one worker. */
export interface BatchFeed {
  /**
   * A line that is left to whoever asks until it is `queued` or has `ended`; undefined where there is none just now. Fails as
   * the store does, and then nothing is lost by it.
   */
  next(now: number, mayQueue: MayQueue): Promise<NextLine | WrongLine | undefined>;
  /** It is in the queue. */
  queued(line: NextLine, now: number): void;
  inHand: ReadonlyMap<number, LineInHand>;
  /** It has a result; or it has come out of the queue, or not into it, to be tried again. */
  ended(line: number): void;
  again(retry: BatchRetry): void;
  changed(line: number, state: LineInHand['state'], now: number): void;
  /** What waits for the backends of this model need not wait any longer. */
  wake(model: string, now: number): void;
  /** The first line that may have no result, and where it begins. */
  position(): Batch['position'];
  /** Nothing of it is left to be queued, nor in hand. */
  isDone(): boolean;
  close(): Promise<void>;
}

/** Lines that are read and passed over, for their model's sake: as many as a file may have. */
const passedOverMax = 50_000;

type Given = Omit<WaitingLine, 'notBefore'>;
type Read = { line: FileLine; length: number; read: ReturnType<typeof parseLine> };

export function createBatchFeed(deps: {
  batch: Batch;
  /** From its position on, those that have a result, and those that were tried before. */
  endedLines: readonly number[];
  retries: readonly BatchRetry[];
  files: Store['files'];
  rules: LineRules;
  health: Pick<ModelHealth, 'isAway' | 'mayProbe' | 'probed'>;
}): BatchFeed {
  const { batch, endedLines, retries, files, health } = deps;
  const rules = rulesOf(deps.rules, batch);
  const withResult = new Set(endedLines);
  const tried = new Map(retries.map((retry) => [retry.line, retry]));
  const waiting = createWaitingLines();
  const inHand = new Map<number, LineInHand>();
  /** Those that are on their way from here into the queue: nobody else knows of them. */
  const given = new Map<number, Given>();
  let lines = readLines(files, batch.inputFile, batch.position);
  let ahead: Read | undefined;
  let position = batch.position;
  let isAtEnd = false;

  /** The next line of the file that nothing is known of, read once however often it is looked at. */
  async function look(): Promise<Read | undefined> {
    while (ahead === undefined && !isAtEnd) {
      const line = await readNext();
      if (line === undefined) isAtEnd = true;
      else if (withResult.delete(line.number) || inHand.has(line.number) || waiting.has(line.number)) pass(line);
      else ahead = { line, length: line.bytes?.length ?? 0, read: parseLine(line, rules) };
    }
    return ahead;
  }

  /** A reading that has failed is over, and would look like the end of the file. */
  async function readNext(): Promise<FileLine | undefined> {
    try {
      const { value: line } = await lines.next();
      return line ?? undefined;
    } catch (error) {
      lines = readLines(files, batch.inputFile, position);
      throw error;
    }
  }

  function pass({ number, from, bytes }: FileLine): void {
    ahead = undefined;
    position = { line: number + 1, byte: from + (bytes?.length ?? 0) + 1 };
  }

  function placeOf({ line, length }: Read): LinePosition {
    return { line: line.number, number: 1, failures: 0, losses: 0, from: line.from, length };
  }

  function toQueue(place: LinePosition, read: Read['read']): NextLine | WrongLine {
    const requestId = requestIdOf(batch.id, place.line, place.number);
    if ('faults' in read) return { ...place, ...read, requestId };
    return { ...place, ...read.parsed, requestId };
  }

  /** Lines of a model that is away wait for it, and not for their time: one of them finds out now and then. */
  function takeWaiting(now: number, mayQueue: MayQueue): WaitingLine | undefined {
    const mayGo = ({ model }: WaitingLine) => mayQueue(model) === 'yes' && !health.isAway(model);
    const due = waiting.takeDue(now, mayGo);
    if (due !== undefined) return due;
    const probe = waiting.takeAny(({ model }) => health.mayProbe(model, now) && mayQueue(model) === 'yes');
    if (probe !== undefined) health.probed(probe.model, now);
    return probe;
  }

  async function nextWaiting(now: number, mayQueue: MayQueue): Promise<NextLine | WrongLine | undefined> {
    const due = takeWaiting(now, mayQueue);
    if (due === undefined) return undefined;
    given.set(due.line, due);
    try {
      const line = await readLine(files, batch.inputFile, { ...due, number: due.line });
      return toQueue(due, parseLine(line, rules));
    } catch (error) {
      given.delete(due.line);
      waiting.put(due);
      throw error;
    }
  }

  async function nextOfFile(mayQueue: MayQueue): Promise<NextLine | WrongLine | undefined> {
    while (waiting.passedOver() < passedOverMax) {
      const found = await look();
      if (found === undefined) return undefined;
      const { line, read } = found;
      const { model } = 'parsed' in read ? read.parsed.call : { model: '' };
      const earlier = tried.get(line.number);
      const verdict = 'faults' in read ? 'yes' : health.isAway(model) ? 'pass over' : mayQueue(model);
      if (earlier === undefined && verdict === 'wait') return undefined;
      pass(line);
      tried.delete(line.number);
      const place = placeOf(found);
      if (earlier !== undefined) {
        waiting.put({ ...place, ...earlier, model, notBefore: earlier.notBefore.getTime() });
      } else if (verdict === 'pass over') {
        waiting.put({ ...place, model, notBefore: 0 });
      } else {
        given.set(line.number, { ...place, model });
        return toQueue(place, read);
      }
    }
    return undefined;
  }

  function ended(line: number): void {
    given.delete(line);
    inHand.delete(line);
  }

  return {
    inHand,
    next: async (now, mayQueue) => (await nextWaiting(now, mayQueue)) ?? (await nextOfFile(mayQueue)),
    queued({ customId, call, ...line }, now) {
      given.delete(line.line);
      inHand.set(line.line, { ...line, customId, model: call.model, state: 'queued', since: now });
    },
    ended,
    again(retry) {
      const line = inHand.get(retry.line) ?? given.get(retry.line);
      if (line === undefined) return;
      ended(retry.line);
      const { from, length, model } = line;
      waiting.put({ ...retry, from, length, model, notBefore: retry.notBefore.getTime() });
    },
    changed(line, state, now) {
      const held = inHand.get(line);
      if (held !== undefined) inHand.set(line, { ...held, state, since: now });
    },
    wake: waiting.wake,
    position() {
      let first = { line: position.line, byte: position.byte };
      for (const { line, from } of [...given.values(), ...inHand.values(), ...waiting.all()]) {
        if (line < first.line) first = { line, byte: from };
      }
      return first;
    },
    isDone: () => isAtEnd && given.size === 0 && inHand.size === 0 && waiting.size() === 0,
    async close() {
      await lines.return(undefined);
    },
  };
}
