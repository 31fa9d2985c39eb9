import { parentPort, workerData } from 'node:worker_threads';
import type { Output } from '../../../shared/concurrency/in-thread.ts';
import { makeSite, type Site, type SiteRequest } from '../../documentation/site/make-site.ts';

// Runs in a thread: makes the documentation once, and exits (decisions.md#the-documentation-in-a-thread).
const made = makeSite(workerData as SiteRequest); // from documentation.ts
parentPort?.postMessage({ made } satisfies Output<Site>);
