import { parentPort, workerData } from 'node:worker_threads';
import type { Output } from '../../shared/concurrency/in-thread.ts';
import type { PageRequest } from './made-pages.ts';

// Runs in a thread: makes the files of the console or the documentation once, and exits (decisions.md#the-documentation-in-a-thread).
const made = await make(workerData as PageRequest); // from made-pages.ts
parentPort?.postMessage({ made } satisfies Output<typeof made>);

/** Loads only what it needs: the console is made without what renders Markdown. */
async function make(request: PageRequest) {
  if ('settings' in request) return (await import('./console-files.ts')).makeConsoleFiles(request.settings);
  return (await import('./documentation-site.ts')).makeSite(request.site);
}
