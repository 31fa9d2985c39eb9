import { parentPort, workerData } from 'node:worker_threads';
import type { ConsoleSettings } from '../../console/session/settings.ts';
import { makeConsoleFiles } from './console-files.ts';

// A thread: it makes the console's files once, and ends.
parentPort?.postMessage(makeConsoleFiles(workerData as ConsoleSettings)); // from console.ts
