import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { readFile, rm } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import { untilEnded } from './earlier-process.ts';

/** Where a stack keeps its data, `.data/` beside `package.json`. */
export const dataDirectory = fileURLToPath(new URL('../../.data', import.meta.url));

/** In that folder, while a stack runs. */
const stackFile = 'stack.json';
const lockFile = 'lock';
const sqliteBusy = 5;

const stackSchema = z.object({
  issuer: z.string(),
  clientSecret: z.string(),
  service: z
    .object({ url: z.string(), redisUrl: z.string(), databaseUrl: z.string(), planFile: z.string() })
    .optional(),
  /** What ends soon after `npm start` was killed. */
  processes: z.array(z.object({ pid: z.number(), command: z.string() })).optional(),
});

/** From the beginning of a start to its end. `service` is there while it is ready. */
const startSchema = stackSchema.partial().extend({ pid: z.number().optional() });

/**
 * How to reach the running stack: its identity provider, the secret for requesting tokens, and, if it runs on this machine, its API and
 * stores.
 */
export type RunningStack = z.infer<typeof stackSchema>;

/** Writes the file with access for its owner only. */
export async function writeRunningStack(runningStack: RunningStack, directory = dataDirectory): Promise<void> {
  mkdirSync(directory, { recursive: true });
  writeStart(directory, runningStack);
}

/**
 * Takes a data folder for this process until it ends, in whichever way: the lock is one of the operating system, on an empty file. Waits
 * for the processes of an earlier start that was killed. Throws an error for the developer if another process has the folder, or if a
 * process of the earlier start does not end.
 */
export async function takeDirectory(directory: string): Promise<TakenDirectory> {
  mkdirSync(directory, { recursive: true });
  const lock = new DatabaseSync(join(directory, lockFile));
  try {
    lock.exec('PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE');
  } catch (cause) {
    lock.close();
    if ((cause as { errcode?: number }).errcode !== sqliteBusy) throw cause; // only SQLite's errors have one
    throw new Error(takenBy(readStart(directory), directory), { cause });
  }
  try {
    const { processes = [] } = readStart(directory);
    writeStart(directory, { pid: process.pid, processes });
    for (const each of processes) await untilEnded(each);
  } catch (error) {
    lock.close();
    throw error;
  }
  return {
    announce: (stack) => writeStart(directory, { pid: process.pid, ...stack }),
    withdraw: () => writeStart(directory, { pid: process.pid }),
    async [Symbol.asyncDispose]() {
      await rm(join(directory, stackFile), { force: true });
      lock.close();
    },
  };
}

export type TakenDirectory = AsyncDisposable & {
  /** Says how to reach the stack. */
  announce(stack: RunningStack): void;
  /** Says that it stops. */
  withdraw(): void;
};

type Start = z.infer<typeof startSchema>;

function takenBy({ pid, service }: Start, directory: string): string {
  const state = service === undefined ? 'It is starting or stopping.' : `Its address is ${service.url}.`;
  const end = pid === undefined ? 'end it' : `end it (Ctrl-C, or kill ${pid})`;
  return `npm start already runs with the data in ${relative('', directory) || directory}${pid === undefined ? '' : ` (process ${pid})`}. ${state} Use it, ${end}, or start another one: npm start -- --free-ports --data <folder>`;
}

/** The file has access for its owner only. It is written at once, so that another start finds it with the lock. */
function writeStart(directory: string, start: Start): void {
  writeFileSync(join(directory, stackFile), JSON.stringify(start), { mode: 0o600 });
}

/** Empty if there is no file, or an incomplete one of a process that was killed. */
function readStart(directory: string): Start {
  try {
    return startSchema.parse(JSON.parse(readFileSync(join(directory, stackFile), 'utf8')));
  } catch {
    return {};
  }
}

/** Throws when no stack runs. The file of a killed stack is not removed. */
export async function readRunningStack(directory = dataDirectory): Promise<RunningStack> {
  try {
    return stackSchema.parse(JSON.parse(await readFile(join(directory, stackFile), 'utf8')));
  } catch (cause) {
    throw new Error(notRunning, { cause });
  }
}

export const notRunning = 'No stack is running. Start one with npm start, then try again.';
