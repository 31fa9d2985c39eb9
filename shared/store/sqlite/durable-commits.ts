import { once } from 'node:events';
import { type FileHandle, open } from 'node:fs/promises';
import { Worker } from 'node:worker_threads';
import { within } from '../../concurrency/shutdown.ts';
import { createSingleFlight } from '../../concurrency/single-flight.ts';

/** A message to the thread: write the log's content into the database file, or end. */
export type CheckpointMessage = 'checkpoint' | 'end';

/** SQLite's own default limit of the log (1,000 pages of 4 KiB). Above it, reads take longer. */
const logBytesMax = 4_096_000;
const checkpointEveryMs = 5_000;
const closeMs = 5_000;

type Options = { now?: () => number; datasync?: (log: FileHandle) => Promise<void> };

/**
 * SQLite would wait for the disk within a commit, and block every stream of the process. Here a commit only writes to the write-ahead log
 * (`synchronous = NORMAL`; it waits only for the header of a log that restarts), where others can read it at once. The log is then forced
 * to the disk from outside SQLite, before the commit is confirmed to any client. So a change that finds by reading that there is nothing to
 * change waits for that as well. A thread makes the checkpoints, which also wait for the disk (contract.md#r6-sqlite-durability,
 * decisions.md#sqlite-commits-outside-the-event-loop).
 */
export function openDurableCommits(
  file: string,
  { now = () => performance.now(), datasync = (log) => log.datasync() }: Options = {},
) {
  let log: Promise<FileHandle> | undefined;
  let failure: { cause: unknown } | undefined;
  let checkpointAt = 0;
  const checkpoints = createCheckpoints(file);
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
    const stat = await opened.stat().catch(() => undefined); // a failure here does not matter: the data is already on the disk
    if (stat !== undefined && stat.size >= logBytesMax) checkpoints.begin();
  }

  /** Throws the error of the disk, if it has failed. */
  function check(): void {
    if (failure !== undefined) throw failure.cause;
  }

  /** The log is the same file as long as the database is open. */
  async function openLog(): Promise<FileHandle> {
    log ??= open(`${file}-wal`, 'r+');
    try {
      return await log;
    } catch (error) {
      log = undefined; // the error may be temporary, such as too many open files
      throw error;
    }
  }

  return {
    /**
     * Resolves once every commit that any process made before this call survives a power cut. Concurrent calls share one wait for the disk.
     * After one failure of the disk, every later call fails, because the content of the log on the disk is then unknown.
     */
    flush: (): Promise<void> => flights.joinNext(undefined),
    check,
    async [Symbol.asyncDispose]() {
      failure ??= { cause: new Error('the store is closed') };
      // Flushes in progress still need the file.
      const flushing = flights.join(undefined).catch(() => {});
      if (!(await within(closeMs, flushing))) return;
      await checkpoints.end();
      await (await log?.catch(() => undefined))?.close();
    },
  };
}

/** Forces the commits of one SQLite database to the disk, without blocking the process. */
export type DurableCommits = ReturnType<typeof openDurableCommits>;

/** Makes checkpoints in a thread, which starts at the first one. */
function createCheckpoints(file: string): { begin(): void; end(): Promise<void> } {
  let thread: Worker | undefined;

  function startThread(): Worker {
    const started = new Worker(new URL('./checkpoint-thread.ts', import.meta.url), { workerData: file });
    started.unref();
    // For example, the disk is full. SQLite makes a checkpoint on its own if the log has become much longer (sqlite-store.ts).
    started.on('error', () => {});
    started.once('exit', () => {
      thread = undefined;
    });
    return started;
  }

  return {
    begin() {
      thread ??= startThread();
      thread.postMessage('checkpoint' satisfies CheckpointMessage);
    },
    async end() {
      if (thread === undefined) return;
      thread.ref(); // otherwise the process could exit in the middle of this
      const ended = once(thread, 'exit').catch(() => {}); // an error also ends the thread
      thread.postMessage('end' satisfies CheckpointMessage);
      if (!(await within(closeMs, ended))) void thread?.terminate(); // if the disk hangs, this does not end it either
    },
  };
}
