import { parentPort, workerData } from 'node:worker_threads';
import type { Output } from '../in-thread.ts';
import type { ParseResult } from './parse-in-thread.ts';
import { parsePlanFile } from './plan-file.ts';

// Runs in a thread: parses one text, and exits.
const made = parsePlanFile(workerData as string); // from parse-in-thread.ts
parentPort?.postMessage({ made } satisfies Output<ParseResult>);
