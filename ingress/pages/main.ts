import { parentPort, workerData } from 'node:worker_threads';
import type { Output } from '../../shared/concurrency/in-thread.ts';
import { makeConsoleFiles } from './console-files.ts';
import { makeSite } from './documentation-site.ts';
import type { PageRequest } from './made-pages.ts';

// Runs in a thread: makes the files of the console or the documentation once, and exits (decisions.md#the-documentation-in-a-thread).
const request = workerData as PageRequest; // from made-pages.ts
const made = 'settings' in request ? makeConsoleFiles(request.settings) : makeSite(request.site);
parentPort?.postMessage({ made } satisfies Output<typeof made>);
