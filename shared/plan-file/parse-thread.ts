import { parentPort, workerData } from 'node:worker_threads';
import type { Output } from '../concurrency/in-thread.ts';
import { type ParseResult, parsePlanFile } from './plan-file.ts';

// Runs in a thread: parses one text, and exits.
const made = parsePlanFile(workerData as string); // from parseInThread
parentPort?.postMessage({ made } satisfies Output<ParseResult>);
