import { createBullBoard } from '@bull-board/api';
import { BullMQAdapter } from '@bull-board/api/bullMQAdapter';
import { KoaAdapter } from '@bull-board/koa';
import type { Queue } from 'bullmq';
import type Koa from 'koa';
import type { ListWorkers } from '../../shared/fleet/follow-fleet.ts';
import type { InferenceJob } from '../../shared/jobs/inference-job.ts';
import { isObject } from '../../shared/json/json-values.ts';

/** A queue, and the pool whose workers read it. */
export type ShownQueue = { queue: Queue; pool: string };

/** Only these fields are shown, because the payload of a job contains the client's prompt. */
const shownFields = [
  ...(['requestId', 'account', 'keyId', 'plan', 'model', 'tier', 'endpoint', 'stream', 'outputTokensMax'] as const),
  ...(['admittedAt', 'startBy', 'deadline', 'earlierRuns'] as const),
] satisfies (keyof InferenceJob)[];

/** Each listed job is read with its payload. */
const jobsPerPageMax = 20;

/** Only admission creates jobs. And the shown data of a job is incomplete, so it must not be saved. */
const neverDone = new Set([
  'post /api/queues/:queueName/add',
  'patch /api/queues/:queueName/:jobId/update-data',
  'patch /api/queues/:queueName/job-schedulers/:schedulerId',
  'put /api/queues/:queueName/job-schedulers/:schedulerId/run',
]);

/**
 * Creates a bull-board for these queues, mounted at `path`. It throws its failures. A refusal is a status with a body in its own format.
 */
export function createQueueBoard(options: {
  queues: readonly ShownQueue[];
  listWorkers: ListWorkers;
  writable: boolean;
  path: string;
}): Koa.Middleware {
  const { queues, listWorkers, writable, path } = options;
  const board = new KoaAdapter();
  board.setBasePath(path);
  createBullBoard({
    queues: queues.map(({ queue, pool }) => {
      const adapter = new BullMQAdapter(queue, { readOnlyMode: !writable, allowRetries: false });
      adapter.setFormatter('data', shownOf);
      // Finished jobs are counted, and not kept.
      adapter.getJobCounts = async () => ({ ...(await queue.getJobCounts()), completed: await finishedIn(queue) });
      // The library looks for the connections that BullMQ's own loop opens, one for each queue. Our workers have no such connections.
      adapter.getWorkers = async () => (await listWorkers(pool)).map((id) => ({ id, name: id, addr: '', age: 0 }));
      return adapter;
    }),
    serverAdapter: board,
    options: {
      uiConfig: { boardTitle: 'Queues', hideDocsLink: true },
      handlerHooks: {
        before({ method, route, request }) {
          if (Number(request?.query.jobsPerPage) > jobsPerPageMax) request.query.jobsPerPage = String(jobsPerPageMax);
          return neverDone.has(`${method} ${route}`) ? { allow: false, status: 403 } : undefined;
        },
      },
    },
  });
  board.setErrorHandler((error) => {
    throw error;
  });
  return board.registerPlugin();
}

/** Since the queue exists. */
async function finishedIn(queue: Queue): Promise<number> {
  const { meta } = await queue.getMetrics('completed', 0, 0);
  return Number(meta.count);
}

function shownOf(data: unknown): Record<string, unknown> {
  if (!isObject(data)) return {};
  return Object.fromEntries(shownFields.flatMap((name) => (name in data ? [[name, data[name]]] : [])));
}
