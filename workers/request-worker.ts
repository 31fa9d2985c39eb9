import { type Job, WaitingError, Worker } from 'bullmq';
import type { Redis } from 'ioredis';
import type { Log } from '../shared/log.ts';
import { queueName, workerOptions } from '../shared/queues.ts';
import type { WorkerMetrics } from './metrics.ts';
import type { ProcessRequest, StopReason } from './process-request.ts';

export interface RequestWorker {
  /** Aborts one job, if this worker has it. */
  cancel(requestId: string, reason: StopReason): void;
  /** Takes no further job and resolves when those in hand have ended. */
  finish(): Promise<void>;
  /** Aborts every job in hand: those that have sent nothing go back to the queue. */
  handBackAll(): void;
}

type Parts = {
  pool: string;
  connection: Redis;
  concurrency: number;
  processRequest: ProcessRequest;
  /** Answers a job that nobody will run again because its workers kept dying. */
  answerLost: (job: { data: unknown; taken: number }) => Promise<void>;
  /** Aborted when the process is asked to end: a job that arrives after that goes back at once. */
  shutdown: AbortSignal;
  metrics: WorkerMetrics;
  log: Log;
};

/** The BullMQ worker of one pool's interactive lane. */
export function startRequestWorker(parts: Parts): RequestWorker {
  const { pool, shutdown, metrics, log } = parts;
  const name = queueName(pool, 'interactive');

  // BullMQ passes the signal only to a function that declares three parameters.
  async function run(job: Job, token: string | undefined, signal: AbortSignal | undefined): Promise<void> {
    if (shutdown.aborted) return handBack(job, token);
    metrics.running.inc({ pool });
    try {
      const given = { data: job.data, taken: job.attemptsStarted, signal: signal ?? new AbortController().signal };
      const ended = await parts.processRequest(given);
      if (ended.outcome === 'done') return;
      await job.updateData(ended.job);
      await handBack(job, token);
    } finally {
      metrics.running.dec({ pool });
    }
  }

  async function handBack(job: Job, token: string | undefined): Promise<never> {
    await job.moveToWait(token);
    throw new WaitingError();
  }

  const worker = new Worker(name, run, workerOptions(name, parts.connection, parts.concurrency));
  worker.on('error', (error) => log.warn({ err: error, queue: name }, 'the queue reported an error'));
  worker.on('lockRenewalFailed', (jobIds: string[]) => {
    for (const id of jobIds) worker.cancelJob(id, 'lock lost' satisfies StopReason);
  });
  worker.on('failed', (job, error) => {
    log.error({ err: error, requestId: job?.id }, 'a job failed');
    const lost = { data: job?.data, taken: (job?.attemptsStarted ?? 0) + 1 };
    parts.answerLost(lost).catch((cause: unknown) => log.error({ err: cause }, 'a lost job was not answered'));
  });
  worker.run().catch((error: unknown) => log.error({ err: error, queue: name }, 'the queue is not read any more'));

  return {
    cancel: (requestId, reason) => {
      worker.cancelJob(requestId, reason);
    },
    finish: () => worker.close(),
    handBackAll: () => worker.cancelAllJobs('shutdown' satisfies StopReason),
  };
}
