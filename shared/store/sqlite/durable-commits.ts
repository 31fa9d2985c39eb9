import { once } from 'node:events';
import { type FileHandle, open } from 'node:fs/promises';
import { Worker } from 'node:worker_threads';
import { within } from '../../process/shutdown.ts';
import { createSingleFlight } from '../../single-flight.ts';

/** Puts what was committed to one SQLite database on the disk, while the process does something else. */
export interface DurableCommits extends AsyncDisposable {
  /**
   * Resolves once every commit that any process made before this call survives a power cut; many calls share one wait for the
   * disk. A disk that has failed once fails every later call: what of the log it holds is not known any more.
   */
  last(): Promise<void>;
  /** Throws what the disk has failed with, if it has. */
  check(): void;
}

/** What the thread is asked: to write the log's content into the database file, or to end. */
export type CheckpointMessage = 'checkpoint' | 'end';

/** As long as SQLite lets it grow by itself (1,000 pages of 4 KiB); beyond it reading takes longer. */
const logBytesMax = 4_096_000;
const checkpointEveryMs = 5_000;
const closeMs = 5_000;

type Options = { now?: () => number; datasync?: (log: FileHandle) => Promise<void> };

/**
 * SQLite waits for the disk within a commit, and so would every stream of the process. Here a commit only writes to the
 * write-ahead log (`synchronous = NORMAL`; it waits for the head of a log that begins anew), which others can read at once, and
 * the log is forced to the disk from outside, before anybody is told of the commit. So a change that finds by reading that
 * there is nothing to change waits for that as well. Checkpoints, which wait for the disk, too, are made by a thread.
 */
export function openDurableCommits(
  file: string,
  { now = () => performance.now(), datasync = (log) => log.datasync() }: Options = {},
): DurableCommits {
  let log: Promise<FileHandle> | undefined;
  let thread: Worker | undefined;
  let failure: { cause: unknown } | undefined;
  let checkpointAt = 0;
  const flights = createSingleFlight({ nameOf: () => 'the log', fetch: forceToDisk });

  async function forceToDisk(_wanted: undefined): Promise<void> {
    check();
    const opened = await openLog();
    try {
      await datasync(opened);
    } catch (cause) {
      failure = { cause };
      throw cause;
    }
    if (now() < checkpointAt) return;
    checkpointAt = now() + checkpointEveryMs;
    const stat = await opened.stat().catch(() => undefined); // what has come to the disk stays there
    if (stat !== undefined && stat.size >= logBytesMax) checkpoint();
  }

  function check(): void {
    if (failure !== undefined) throw failure.cause;
  }

  /** It stays the same file for as long as the database is open. */
  async function openLog(): Promise<FileHandle> {
    log ??= open(`${file}-wal`, 'r+');
    try {
      return await log;
    } catch (error) {
      log = undefined; // too many files are open just now, for one
      throw error;
    }
  }

  function checkpoint(): void {
    thread ??= startThread();
    thread.postMessage('checkpoint' satisfies CheckpointMessage);
  }

  function startThread(): Worker {
    const started = new Worker(new URL('./checkpoint-thread.ts', import.meta.url), { workerData: file });
    started.unref();
    // A disk that is full, for one: SQLite makes a checkpoint by itself where the log has become much longer (open-sqlite.ts).
    started.on('error', () => {});
    started.once('exit', () => {
      thread = undefined;
    });
    return started;
  }

  async function endThread(): Promise<void> {
    if (thread === undefined) return;
    thread.ref(); // or the process could end in the middle of this
    const ended = once(thread, 'exit').catch(() => {}); // an error ends it as well
    thread.postMessage('end' satisfies CheckpointMessage);
    if (!(await within(closeMs, ended))) void thread?.terminate(); // where the disk hangs that does not end it either
  }

  return {
    last: () => flights.joinNext(undefined),
    check,
    async [Symbol.asyncDispose]() {
      failure ??= { cause: new Error('the store is closed') };
      // What is under way still needs the file.
      const underWay = flights.join(undefined).catch(() => {});
      if (!(await within(closeMs, underWay))) return;
      await endThread();
      await (await log?.catch(() => undefined))?.close();
    },
  };
}
