import { parentPort, workerData } from 'node:worker_threads';
import type { Output } from '../../../shared/concurrency/in-thread.ts';
import type { ConsoleSettings } from '../../console/session/settings.ts';
import { type ConsoleFiles, makeConsoleFiles } from './console-files.ts';

// Runs in a thread: makes the files of the console once, and exits.
const made = makeConsoleFiles(workerData as ConsoleSettings); // from console.ts
parentPort?.postMessage({ made } satisfies Output<ConsoleFiles>);
