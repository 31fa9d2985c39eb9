import { randomBytes, randomUUID } from 'node:crypto';
import { Registry } from 'prom-client';
import { createSharedCallers } from '../../ingress/authentication/callers.ts';
import { createRequestQueues } from '../../ingress/queue/queue-turns.ts';
import { createKeptAnswers } from '../../shared/jobs/idempotency.ts';
import { modelQueue } from '../../shared/jobs/queues.ts';
import { createAdmit } from '../../shared/limits/admit.ts';
import { createSettle, type Settlement } from '../../shared/limits/settle.ts';
import {
  countersKey,
  endedRequestKey,
  leaseEndsKey,
  leaseHoldersKey,
  leasesKey,
  outboxKey,
  partitionOf,
  versionKey,
} from '../../shared/redis/keys.ts';
import type { BatchJob } from '../../workers/batches/lines/batch-job.ts';
import { createLineQueue } from '../../workers/batches/lines/line-queue.ts';
import type { Bytes, ItemBytes } from '../../workers/memory/item-bytes.ts';
import { createWorkerMetrics } from '../../workers/metrics.ts';
import { createHeldPayloads, createLaneWorker } from '../../workers/queue/lane-worker.ts';
import { createReplyFrames } from '../../workers/replies/send-reply.ts';
import { createEndLeases } from '../../workers/requests/expire-leases.ts';
import { createStartRun } from '../../workers/requests/start-run.ts';
import { batchPlan } from '../support/batch-plan.ts';
import { openLimits } from '../support/limits-side.ts';
import { type PrivateRedis, startPrivateRedis } from '../support/private-redis.ts';
import { recordedLog } from '../support/recorded-log.ts';
import { replaceClock } from '../support/redis-clock.ts';
import { bytesAtRest, bytesEach } from './redis-bytes.ts';
import { bodyOf, model, newAccount, newDevice, newJob, newReport, newRequest, plan } from './typical.ts';

type Redis = PrivateRedis['redis'];

const timeouts = { queueMs: 30_000, requestMs: 600_000 };
const kibibyte = 1_024;
const [smallBody, largeBody] = [kibibyte, 9 * kibibyte];

/** What each item takes in a Redis of its own. */
export async function measureRedis(): Promise<ItemBytes['redis']> {
  await using own = await startPrivateRedis();
  const { redis } = own;
  const setTime = replaceClock(redis);
  const accounts = createAccounts(redis, setTime);
  const ofAccount = (create: () => Promise<unknown>, count = 1_500) => bytesEach(redis, { count, create });
  return {
    ...(await measureQueues(redis)),
    reply: await measureReplies(redis),
    account: { bytes: await ofAccount(() => accounts.leaveAtRest(newAccount())) },
    device: { bytes: await ofAccount(() => accounts.leaveAtRest(newDevice())) },
    limitedKey: { bytes: await ofAccount(accounts.useLimitedKey) },
    activeAccount: { bytes: await ofAccount(() => accounts.keepBusy(newAccount()), 300) },
    lease: { bytes: await ofAccount(() => accounts.holdLease(newAccount())) },
    furtherLease: { bytes: await ofAccount(accounts.holdFurtherLease) },
    endedMark: { bytes: await ofAccount(accounts.markEnded) },
    keptAnswer: await bySize((bytes) => bytesEach(redis, { count: 500, create: () => accounts.keepAnswer(bytes) })),
    usageEvent: { bytes: await ofAccount(accounts.appendEvent, 3_000) },
    atRest: { bytes: await bytesAtRest(redis) },
  };
}

function createAccounts(redis: Redis, setTime: (nowMs: number) => Promise<void>) {
  const { admit } = createAdmit(redis, { timeouts: () => timeouts, outboxLengthMax: 1_000_000 });
  const startRun = createStartRun(redis);
  const settle = createSettle(redis);
  const kept = createKeptAnswers([newRequest()]);
  const endLeases = createEndLeases(redis, { requestMs: () => timeouts.requestMs });
  const callers = createSharedCallers({ redis, secretsInUse: 'a1b2c3d4', log: recordedLog().log });
  const charge = { allowance: { overageEnabled: false }, reservedTokens: 5_000, report: newReport() };
  const [start, month] = [Date.UTC(2030, 4, 15, 12), '2030-05'];
  const version = 1;

  async function prepare(account: string): Promise<void> {
    await setTime(start);
    await openLimits(redis, { account }).prepare(month);
  }

  async function run(account: string, requestId = newRequest()): Promise<string> {
    const answer = await admit({ account, requestId, version }, charge);
    if (answer.outcome !== 'admitted') throw new Error(`not admitted: ${answer.outcome}`);
    await startRun({ account, requestId, taken: 1 });
    return requestId;
  }

  async function end(account: string, requestId: string, claim?: Settlement['claim']): Promise<void> {
    const admission = { admittedAt: start, deadline: start + timeouts.requestMs, overage: false };
    const settlement = { account, requestId, run: 1, settler: newRequest(), chargedTokens: 1_690, report: newReport() };
    await settle({ ...settlement, admission, claim });
  }

  /** Runs a request to its end, and leaves the account, without what the request leaves for some time. */
  async function runOne(account: string): Promise<void> {
    const requestId = await run(account);
    await end(account, requestId);
    await redis.del(endedRequestKey(account, requestId), outboxKey(partitionOf(account)));
  }

  const removeAccount = (account: string) =>
    redis.del(countersKey(account), versionKey(account), leaseHoldersKey(partitionOf(account)));

  const settled = newAccount();

  return {
    /** Two minutes after its last request, its counters are written again. An hour after it, its version is gone. */
    async leaveAtRest(account: string): Promise<void> {
      await prepare(account);
      await runOne(account);
      await setTime(start + 180_000);
      await endLeases({ account, lane: 'interactive' }, Number.MAX_SAFE_INTEGER);
      await redis.del(versionKey(account), leaseHoldersKey(partitionOf(account)));
    },
    /** It has sent requests for a minute, so its window has all buckets, and its caller is shared. */
    async keepBusy(account: string): Promise<void> {
      await prepare(account);
      for (let bucket = 0; bucket < 12; bucket++) {
        await setTime(start + bucket * 5_000);
        await runOne(account);
      }
      const caller = { account, plan, suspended: false, version, overageEnabled: false, keyId: 'key_01J000000000000' };
      await callers.put(newDevice().slice('device:'.length), caller);
    },
    async useLimitedKey(): Promise<void> {
      const account = newAccount();
      const side = openLimits(redis, { account });
      const limits = { requestsPerMinute: 600, tokensPerMonth: 1_000_000 };
      const key = { id: newRequest().replace('req_', 'key_'), limits };
      await prepare(account);
      await side.seedKey(key.id, month);
      await side.admit({ requestId: 'a', key });
      await side.start('a');
      await side.settle('a', { tokens: 1_690 });
      await redis.del(endedRequestKey(account, side.idOf('a')), outboxKey(partitionOf(account)));
      await removeAccount(account);
    },
    async holdLease(account: string): Promise<void> {
      await prepare(account);
      await run(account);
      await redis.del(countersKey(account), versionKey(account));
    },
    /** All of one account. */
    async holdFurtherLease(): Promise<void> {
      if ((await redis.exists(countersKey(settled))) === 0) await prepare(settled);
      await run(settled);
    },
    async markEnded(): Promise<void> {
      const account = newAccount();
      await prepare(account);
      await end(account, await run(account));
      await redis.del(leasesKey(account), leaseEndsKey(account), outboxKey(partitionOf(account)));
      await removeAccount(account);
    },
    /** All of one account. */
    async keepAnswer(bytes: number): Promise<void> {
      const [requestId, idempotencyKey] = [newRequest(), randomUUID()];
      const answer = kept.seal({ account: settled, idempotencyKey }, { body: bodyOf(bytes), estimated: false });
      if (answer === undefined) throw new Error('too large to be kept');
      const bodyMark = randomBytes(32).toString('base64url');
      await setTime(start);
      await end(settled, requestId, { idempotencyKey, bodyMark, end: 'kept', answer });
      await redis.del(endedRequestKey(settled, requestId), outboxKey(partitionOf(settled)));
    },
    /** All in one outbox, as the events of a partition are. */
    async appendEvent(): Promise<void> {
      const requestId = newRequest();
      await setTime(start);
      await end(settled, requestId);
      await redis.del(endedRequestKey(settled, requestId));
    },
  };
}

async function measureQueues(redis: Redis): Promise<Record<'waiting' | 'running' | 'lineWaiting', Bytes>> {
  const { log } = recordedLog();
  await using queues = createRequestQueues({ connection: redis, log });
  await using lines = createLineQueue({ redis, models: () => batchPlan().models, log });
  await using worker = createLaneWorker({
    ...{ queue: modelQueue(model, 'interactive'), labels: { pool: 'default', lane: 'interactive' } },
    ...{ connection: redis, payloads: createHeldPayloads({ bodyBytesMax: 1 }), shutdown: new AbortController().signal },
    ...{ metrics: createWorkerMetrics(new Registry()), log, failLost: async () => {} },
    processJob: async () => ({ outcome: 'done' }),
  });
  // BullMQ notes the latest thousand events of a queue. They are of the queue, not of its jobs.
  const tidy = () => redis.del(...(['interactive', 'batch'] as const).map(eventsOf));
  const measure = (create: (bytes: number) => Promise<unknown>) =>
    bySize((bytes) => bytesEach(redis, { count: 500, create: () => create(bytes), tidy }));
  return {
    waiting: await measure((bytes) => queues.add(newJob(bytes), 17)),
    running: await measure(async (bytes) => {
      await queues.add(newJob(bytes), 17);
      if (!('job' in (await worker.take()))) throw new Error('no job was taken');
    }),
    lineWaiting: await measure((bytes) => lines.add(lineJob(bytes))),
  };
}

function eventsOf(lane: 'interactive' | 'batch'): string {
  const { prefix, name } = modelQueue(model, lane);
  return `${prefix}:${name}:events`;
}

function lineJob(bytes: number): BatchJob {
  const { replyTo: _, admittedAt: _a, startBy: _s, deadline: _d, overage: _o, ...call } = newJob(bytes);
  const line = {
    errorFormat: 'flat' as const,
    line: 1_234,
    customId: 'request-1234',
    number: 1,
    failures: 0,
    losses: 0,
    reservedTokens: 5_000,
  };
  return {
    ...call,
    ...line,
    batch: newRequest().replace('req', 'batch'),
    tellTo: 'svc:control:01J00000000000000000000000',
  };
}

async function measureReplies(redis: Redis): Promise<Bytes> {
  const key = 'svc:reply-frames:01J00000000000000000000000';
  const frames = createReplyFrames({ redis });
  const append = async (bytes: number) => {
    const reply = {
      request: newRequest(),
      run: 1,
      sequence: 1,
      kind: 'chunk',
      data: bodyOf(bytes),
      tokens: 5,
    } as const;
    if ((await redis.exists(key)) === 0) await redis.xadd(key, '*', 'opened', '1');
    await frames.post(key, [reply]).sent;
  };
  return bySize((bytes) => bytesEach(redis, { count: 500, create: () => append(bytes) }));
}

/** The bytes without the content, and for each KiB of it. */
async function bySize(measure: (bytes: number) => Promise<number>): Promise<Bytes> {
  const [small, large] = [await measure(smallBody), await measure(largeBody)];
  const perKibibyte = (large - small) / ((largeBody - smallBody) / kibibyte);
  return { bytes: small - perKibibyte * (smallBody / kibibyte), perKibibyte };
}
