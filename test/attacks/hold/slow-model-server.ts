import { parentPort, workerData } from 'node:worker_threads';
import { type ModelServerOptions, startModelServer } from '../../stack/model-server.ts';

/** The thread of a model server, which posts its URL: what it does with large bodies must not delay the answers of the callers' servers. */
const { url } = await startModelServer(workerData as ModelServerOptions); // from the only module that starts this thread
parentPort?.postMessage(url);
