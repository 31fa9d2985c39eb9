import { randomUUID } from 'node:crypto';
import type { ExecutionContext } from 'ava';
import type { Queue } from 'bullmq';
import { Registry } from 'prom-client';
import { allQueues, openQueue, type QueueId } from '../../shared/jobs/queues.ts';
import type { ParsedPlanFile, PlanFile } from '../../shared/plan-file/plan-file.ts';
import { createPlanFileInForce } from '../../shared/process/watch-plan-file.ts';
import type { Redis } from '../../shared/redis/connections.ts';
import { createCallHistory } from '../../workers/backends/call-history.ts';
import { openSlots } from '../../workers/backends/open-slots.ts';
import { createWorkerMetrics } from '../../workers/metrics.ts';
import { createHeldPayloads, type HeldPayloads, type LaneWork } from '../../workers/queue/lane-worker.ts';
import { createLinePace } from '../../workers/queue/line-pace.ts';
import { type ServedQueues, serveQueues } from '../../workers/queue/serve-queues.ts';
import type { RedisDatabase } from './private-redis.ts';
import { recordedLog } from './recorded-log.ts';

type Slots = Parameters<typeof serveQueues>[0]['slots'];

/** Gives every job a slot. */
export const slotsForAll: Slots = {
  reserve: () => ({
    outcome: 'reserved',
    reservation: { backend: 'a', leftMs: () => 0, use: () => undefined, release() {} },
  }),
  hasSlot: () => true,
};

type Wishes = {
  work: { interactive: LaneWork; batch: LaneWork };
  slots?: Slots;
  /** Replaces `slots` by those of backends: each model has the backend `a`, which takes one call at once. */
  ofBackends?: boolean;
  concurrency?: number;
  batchConcurrency?: number;
  payloads?: HeldPayloads;
  checksStalled?: boolean;
  reader?: Redis;
  shutdown?: AbortController;
};

/** The queues of models of one pool that only the test uses, and workers of them. All are closed when the test ends. */
export function openServedQueues(t: ExecutionContext, given: RedisDatabase, count = 1) {
  const pool = `pool-${randomUUID()}`;
  const names = Array.from({ length: count }, (_, index) => `model-${index + 1}-${randomUUID()}`);
  const models = Object.fromEntries(
    names.map((name) => [name, { tier: 'guest', pool, backends: ['a'], outputTokensMax: 1 }]),
  ) as unknown as PlanFile['models']; // other fields of a model do not affect its queue
  const { log, lines } = recordedLog();
  const opened = new Map<string, Queue>();

  function queue(id: QueueId): Queue {
    const found = opened.get(id.name) ?? openQueue(id, { connection: given.redis, log });
    opened.set(id.name, found);
    return found;
  }

  t.teardown(() => Promise.all([...opened.values()].map((each) => each.close())));

  function serve({
    shutdown = new AbortController(),
    checksStalled = true,
    concurrency = 4,
    batchConcurrency = 4,
    ...wishes
  }: Wishes) {
    const planFile = createPlanFileInForce(withModels(models));
    const metrics = createWorkerMetrics(new Registry());
    const common = {
      planFile,
      pools: () => [pool],
      workerId: randomUUID(),
      metrics,
      history: createCallHistory(),
      log,
    };
    const onChange = () => worker?.slotsChanged();
    const openForBackends = () =>
      openSlots({
        ...{ ...common, redis: given.redis, onChange, onRenewed() {}, shutdown: shutdown.signal },
        ...{ ask: () => Promise.reject(new Error('no backend answers')), checks: { test: async () => true } },
        keys: { lacks: () => false },
      });
    const backends = wishes.ofBackends ? openForBackends() : undefined;
    t.teardown(() => backends?.[Symbol.dispose]());
    let worker: ServedQueues | undefined;
    const served = serveQueues({
      ...{ ...common, slots: backends?.slots ?? slotsForAll, connection: given.redis, upkeepRedis: given.redis },
      config: { concurrency, batchConcurrency },
      payloads: createHeldPayloads({ bodyBytesMax: 1, bytesMax: 2 ** 40 }),
      linePace: createLinePace({ isBusy: () => false }), // otherwise lines would pause on a busy machine
      checksStalled: () => checksStalled,
      shutdown: shutdown.signal,
      connectReader: () => wishes.reader ?? given.connect(),
      ...wishes,
    });
    worker = served;
    t.teardown(async () => {
      shutdown.abort();
      const finished = served.finish();
      served.requeueAll();
      await finished;
      await served[Symbol.asyncDispose]();
    });
    /** The plan file has these models from now on. */
    const replace = (next: PlanFile['models']) => planFile.replace(withModels(next));
    return { ...served, shutdown, replace };
  }

  async function jobs(): Promise<number> {
    const counts = await Promise.all(allQueues(models).map((id) => queue(id).getJobCounts()));
    return counts.flatMap((each) => Object.values(each)).reduce((sum, each) => sum + each, 0);
  }

  return { pool, models: names, settings: models, queue, serve, lines, jobs };
}

function withModels(models: PlanFile['models']): ParsedPlanFile {
  const backends = { a: { url: 'http://127.0.0.1:1/v1', location: 'on-prem', requestsAtOnce: 1, perWorker: true } };
  return { planFile: { models, backends } as unknown as PlanFile, generation: '' }; // nothing else is read
}
