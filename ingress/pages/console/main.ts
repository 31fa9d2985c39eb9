import { parentPort, workerData } from 'node:worker_threads';
import type { ConsoleSettings } from '../../console/session/settings.ts';
import { makeConsoleFiles } from './console-files.ts';

// Runs in a thread: makes the files of the console once, and exits.
parentPort?.postMessage(makeConsoleFiles(workerData as ConsoleSettings)); // from console.ts
