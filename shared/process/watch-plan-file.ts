import { readFile, stat } from 'node:fs/promises';
import { Gauge, type Registry } from 'prom-client';
import { pauseToBeat } from '../concurrency/at-beat.ts';
import {
  generationOf,
  type ParsedPlanFile,
  type PlanFile,
  type PlanFileResult,
  type PlanFileSource,
  planFileLengthMax,
  unreadable,
} from '../plan-file/plan-file.ts';
import type { Log } from './log.ts';

const lookEveryMs = 1_000;

/** Knows why the text that was read last is not used; empty if it is. */
export type PlanFileWatch = AsyncDisposable & { issues(): readonly string[] };

/**
 * Reports each change of the plan file until it is disposed of. It looks at the file at a regular interval, so that it sees a write in
 * place, a file that is renamed over it, a symbolic link that is replaced on the way to it, and changes on file systems without events. A
 * text counts once it was read twice: a text that is half written does not. Then the file is not read until its size, its times or its
 * inode have changed.
 */
export function watchPlanFile({
  source,
  planFile,
  onChanged,
  log,
  look = pauseUntilNextLook,
}: {
  source: PlanFileSource;
  planFile: Pick<PlanFileInForce, 'generation'>;
  /** With what the file says now; undefined if that is not valid. */
  onChanged: (next: ParsedPlanFile | undefined) => void;
  log: Pick<Log, 'error' | 'warn'>;
  /** Resolves at the time of the next look, or when the signal is aborted. */
  look?: (signal: AbortSignal) => Promise<unknown>;
}): PlanFileWatch {
  const { file, initial, parse, warningsOf } = source;
  const closing = new AbortController();
  let reported = initial.generation;
  let seen = reported;
  /** The file at the last look, and whether it need not be read while it stays like that. */
  let known = { mark: '', isRead: false };
  let issues: readonly string[] = [];

  async function lookOnce(): Promise<void> {
    const mark = await markOf(file);
    if (known.isRead && known.mark === mark) return;
    const text = await readText(file).catch((error: NodeJS.ErrnoException) => ({ unreadable: error.code }));
    const now = typeof text === 'string' ? generationOf(text) : `unreadable: ${text.unreadable}`;
    const isStable = now === seen;
    // Read twice: two writes within one tick of the file system's clock may leave the same mark.
    known = { mark, isRead: isStable && known.mark === mark };
    seen = now;
    if (!isStable || now === reported) return;
    if (typeof text !== 'string') take({ issues: [unreadable(file, text.unreadable)] });
    else {
      const reading = await parse(text, closing.signal).catch((err) => ({ err }));
      if ('err' in reading) return retryLater(reading.err);
      take(reading);
    }
    reported = now;
  }

  /** The thread failed, for example for lack of memory: the text may be valid. */
  function retryLater(err: unknown): void {
    known = { mark: '', isRead: false };
    if (closing.signal.aborted) return;
    issues = ['PLAN_FILE: could not be parsed; retrying'];
    log.error({ err }, 'the plan file could not be parsed; retrying');
  }

  function take(reading: PlanFileResult): void {
    issues = 'issues' in reading ? reading.issues.map(({ path, message }) => `${path}: ${message}`) : [];
    const warnings = 'issues' in reading ? [] : warningsOf(reading.planFile);
    if (warnings.length > 0) log.warn({ warnings }, 'the plan file is valid, and has what is probably a mistake');
    if (issues.length > 0)
      log.error(
        { issues, generation: planFile.generation() },
        'the plan file is invalid; the earlier one stays in force',
      );
    onChanged('issues' in reading ? undefined : reading);
  }

  async function lookUntilClosed(): Promise<void> {
    while (!closing.signal.aborted) {
      await look(closing.signal);
      if (!closing.signal.aborted) await lookOnce();
    }
  }

  const looking = lookUntilClosed();
  return {
    issues: () => issues,
    async [Symbol.asyncDispose]() {
      closing.abort();
      await looking;
    },
  };
}

/** A pipe could block the read for ever, and a large file would be read again at each look. */
async function readText(file: string): Promise<string | { unreadable: string }> {
  const found = await stat(file);
  if (!found.isFile()) return { unreadable: 'not a regular file' };
  // A character has at most four bytes in UTF-8.
  if (found.size > 4 * planFileLengthMax) return { unreadable: 'too large' };
  return readFile(file, 'utf8');
}

function pauseUntilNextLook(signal: AbortSignal): Promise<void> {
  return pauseToBeat(lookEveryMs, signal);
}

/** Changes whenever another text is written. */
async function markOf(file: string): Promise<string> {
  try {
    const { dev, ino, size, mtimeNs, ctimeNs } = await stat(file, { bigint: true });
    return [dev, ino, size, mtimeNs, ctimeNs].join(' ');
  } catch (error) {
    return `unreadable: ${(error as NodeJS.ErrnoException).code}`; // stat throws only such errors
  }
}

/** The plan file that this process works with. It is replaced as a whole while the process runs (contract.md#k1-live-plan-file). */
export function createPlanFileInForce(initial: ParsedPlanFile) {
  let inForce = initial;
  const listeners: (() => void)[] = [];
  return {
    current: (): PlanFile => inForce.planFile,
    generation: (): string => inForce.generation,
    replace(next: ParsedPlanFile): void {
      inForce = next;
      for (const listener of listeners) listener();
    },
    /** Calls the listener after each replacement, in the order of the calls of this method. */
    onReplaced: (listener: () => void): void => void listeners.push(listener),
  };
}

export type PlanFileInForce = ReturnType<typeof createPlanFileInForce>;

/**
 * What a process shows of its plan file. `next`: a later one that an ingress has read, and the pools that have no worker with it yet.
 * `issues`: why the text that was read last is not used; empty if it is.
 */
export type PlanFileStatus = {
  generation: string;
  next?: { generation: string; waitsFor: readonly string[] } | undefined;
  issues: readonly string[];
};

/** Registers the gauges of the plan file. */
export function observePlanFile(registry: Registry, status: () => PlanFileStatus): void {
  new Gauge({
    name: 'svc_plan_file_generation',
    help: 'Generation of the plan file that this process works with, as a label; always 1',
    labelNames: ['generation'],
    registers: [registry],
    collect() {
      this.reset();
      this.set({ generation: status().generation }, 1);
    },
  });
  new Gauge({
    name: 'svc_plan_file_issues',
    help: 'Issues of the plan file that was read last, and is not used because of them; 0 if it is valid',
    registers: [registry],
    collect() {
      this.set(status().issues.length);
    },
  });
}
