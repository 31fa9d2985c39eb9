import '../shared/process/require-node-24.mjs';
import type { Redis } from 'ioredis';
import { ulid } from 'ulid';
import { decodeCancellation } from '../shared/jobs/cancellation.ts';
import { createSettle } from '../shared/limits/settle.ts';
import { greetStore, openStore } from '../shared/open-store.ts';
import { readWorkerConfig, type WorkerConfig } from '../shared/process/config.ts';
import type { Log } from '../shared/process/log.ts';
import { createRegistry } from '../shared/process/metrics.ts';
import { followProcessState, listenForOperations } from '../shared/process/operations.ts';
import { runProcess } from '../shared/process/run-process.ts';
import { aborted, within } from '../shared/process/shutdown.ts';
import { connectForWork, waitForRedis } from '../shared/redis/connections.ts';
import { controlStreamKey } from '../shared/redis/keys.ts';
import { outboxLengthFor } from '../shared/redis/outbox-bound.ts';
import { fieldsOf, openInbox, waitUntilOpen } from '../shared/redis/stream-inbox.ts';
import { createFindAnswer } from './answers/find-answer.ts';
import { createBackendSlots } from './backends/backend-slots.ts';
import { createRetryBudget } from './backends/retry-budget.ts';
import type { BreakerStatus } from './backends/served-backends.ts';
import { decodeLineEvent } from './batches/lines/line-events.ts';
import { createObserveBatches } from './batches/observe-batches.ts';
import { openBatches } from './batches/open-batches.ts';
import { decodeAssignment } from './batches/scheduler/assign-accounts.ts';
import type { BatchSupervisor } from './batches/scheduler/batch-supervisor.ts';
import { loadTokenizer } from './chat-answers/count-tokens.ts';
import { createBackendChecks } from './exchange/backend-checks.ts';
import { createBackendAgent, createCallBackend } from './exchange/call-backend.ts';
import { createOwnFields } from './exchange/own-fields.ts';
import { beatLeases } from './leases/beat-leases.ts';
import { createEndLeases } from './leases/end-leases.ts';
import { countLeases, createExpireLeases } from './leases/expire-leases.ts';
import { createMarkStreaming } from './leases/mark-streaming.ts';
import { createRenewLeases } from './leases/renew-leases.ts';
import { createStartRun } from './leases/start-run.ts';
import { createAcquireLock } from './locks/acquire.ts';
import { createReleaseLock } from './locks/release.ts';
import { createRemoveUnusedDevices } from './maintenance/remove-unused-devices.ts';
import { startAuditCopy } from './maintenance/start-audit-copy.ts';
import { startDeviceRemoval } from './maintenance/start-device-removal.ts';
import { createWorkerMetrics, type WorkerMetrics } from './metrics.ts';
import { createBodiesHeld } from './queue/bodies-held.ts';
import { type QueuesServed, serveQueues } from './queue/serve-queues.ts';
import { createReplyFrames } from './replies/reply-frames.ts';
import { watchReaders } from './replies/watch-readers.ts';
import { createEndRequest } from './requests/end-request.ts';
import { createFailLostRequest } from './requests/fail-lost-request.ts';
import { createProcessRequest } from './requests/process-request.ts';
import { createRenewShares } from './shares/renew-shares.ts';
import { type Shares, startShareRenewal } from './shares/start-share-renewal.ts';
import { createNotifyDrainer, decodeDrainRequest, settleAndNotify } from './usage/notify-drainers.ts';
import { createObserveOutboxes } from './usage/observe-outboxes.ts';
import { createUsageDrainer, type UsageDrainer } from './usage/usage-drainer.ts';

/** What a job that was told to stop may still need: to abort its call, send its last word and go back to the queue. */
const requeueMs = 5_000;
/** Longer than the pause between two passes, so that the worker that has begun stays the one. */
const auditHoldMs = 360_000;
const devicesHoldMs = 180_000;
/** Before the first renewal. */
const noShare = { calls: 0, batchCalls: 0 };

await runProcess({ name: 'worker', readConfig: readWorkerConfig, run });

async function run({ config, log, shutdown }: { config: WorkerConfig; log: Log; shutdown: AbortSignal }) {
  await using parts = new AsyncDisposableStack();
  const { planFile, apiKeys } = config;
  const use = (redis: Redis) => parts.adopt(redis, (connection) => connection.disconnect());

  const workerId = ulid();
  const registry = createRegistry();
  const metrics = createWorkerMetrics(registry);
  const store = parts.use(await openStore(config.databaseUrl, { log }));
  void greetStore(store, log);
  const redis = use(connectForWork(config.redisUrl, log));
  const oneConnection = config.replyRedisUrl === config.redisUrl;
  const replyRedis = oneConnection ? redis : use(connectForWork(config.replyRedisUrl, log));
  const controlReader = use(connectForWork(config.replyRedisUrl, log));
  const agent = parts.adopt(createBackendAgent(planFile.timeouts), (opened) => opened.destroy());

  const { pools } = config;
  const onBreaker = reporterOfBreakers({ metrics, log });
  const { concurrency, batchConcurrency } = config;
  let shares: Shares | undefined;
  let queues: QueuesServed | undefined;
  const slots = parts.use(
    createBackendSlots({
      ...{ planFile, pools, onBreaker },
      shareOf: (backend) => shares?.shareOf(backend) ?? noShare,
      areSharesValid: () => shares?.areValid() ?? false,
      onHungry: () => shares?.renewSoon(),
      onChange: () => queues?.slotsChanged(),
    }),
  );
  metrics.observeBackends(slots);
  metrics.concurrency.set({ lane: 'interactive' }, concurrency);
  metrics.concurrency.set({ lane: 'batch' }, batchConcurrency);

  const state = followProcessState(shutdown);
  const checks = { store: () => store.ping(), ...createBackendChecks(config, agent) };
  const required = { redis: () => redis.ping(), replyRedis: () => replyRedis.ping() };
  const details = () => ({ running: queues?.running() ?? 0, breakers: slots.breakerStatuses() });
  const operations = parts.use(
    await listenForOperations({
      ...config.operations,
      registry,
      state: state.current,
      required,
      checks,
      details,
      log,
    }),
  );
  log.info({ port: operations.port }, 'operations listener is up; waiting for Redis');
  await loadTokenizer();
  const { memoryBytes } = await waitForRedis([redis, replyRedis], { signal: shutdown, log });
  const outboxLengthMax = outboxLengthFor(config.outboxLengthMax, memoryBytes);

  let supervisor: BatchSupervisor | undefined;
  let drainer: UsageDrainer | undefined;
  const inbox = openInbox({
    reader: controlReader,
    redis: replyRedis,
    log,
    // Always the same name: other workers find this stream by the id in the worker's holds.
    keyOf: () => controlStreamKey(workerId),
    onEntry: (entry) => {
      const fields = fieldsOf(entry);
      const request = decodeCancellation(fields);
      if (request !== undefined) queues?.cancel(request, 'cancelled');
      const event = decodeLineEvent(fields);
      if (event !== undefined) supervisor?.receive(event);
      supervisor?.take(decodeAssignment(fields));
      for (const partition of decodeDrainRequest(fields)) drainer?.notify(partition);
      return false;
    },
    // Cancellations that were in it are lost, and those runs go on to their own end; lines of batches are looked after.
    onLost: () => {},
  });
  await waitUntilOpen(inbox, shutdown);
  metrics.observeBatches(createObserveBatches(store.batches));
  const { usageMonthsKept } = planFile;
  const expireLeases = createExpireLeases({
    redis,
    endLeases: createEndLeases(redis, planFile.timeouts),
    timeouts: planFile.timeouts,
    metrics,
  });
  const usageDrainer = createUsageDrainer({ redis, store, workerId, metrics, log, usageMonthsKept, expireLeases });
  drainer = usageDrainer;
  metrics.observeOutboxes(createObserveOutboxes(redis, usageDrainer.held));
  const notifyDrainer = parts.use(createNotifyDrainer({ redis, replyRedis, notifyOwn: usageDrainer.notify, log }));
  const auditHold = {
    acquireLock: createAcquireLock(redis, { workerId, holdMs: auditHoldMs }),
    releaseLock: createReleaseLock(redis, { workerId }),
  };
  const copyingAudit = startAuditCopy({ audit: store.audit, ...auditHold, log });
  metrics.observeLeases(() => countLeases(redis, usageDrainer.held()));

  const startRun = createStartRun(redis);
  const settle = settleAndNotify(createSettle(redis), notifyDrainer);
  const endRequest = createEndRequest({ settle, oneConnection, metrics, log });
  const findAnswer = createFindAnswer({
    slots,
    retryBudget: createRetryBudget(),
    apiKeys,
    callBackend: createCallBackend({ agent, timeouts: planFile.timeouts }),
    ownFields: createOwnFields({ plans: planFile.plans, pepper: config.keyPepper }),
    firstTokenMs: planFile.timeouts.firstTokenMs,
    metrics,
    log,
  });
  const replyFrames = createReplyFrames({ redis: replyRedis });
  const leases = parts.use(beatLeases({ renewLeases: createRenewLeases(redis), timeouts: planFile.timeouts, log }));
  const processRequest = createProcessRequest({
    planFile,
    startRun,
    markStreaming: createMarkStreaming(redis),
    findAnswer,
    endRequest,
    replyFrames,
    leases,
    followReader: parts.use(watchReaders({ redis: replyRedis, log })).follow,
    metrics,
    log,
    control: inbox.address,
  });
  const endLost = createFailLostRequest({ startRun, endRequest, replyFrames });
  const batches = openBatches({
    ...{ config, outboxLengthMax, redis, replyRedis, store, workerId, startRun, settle, findAnswer, shutdown },
    ...{ metrics, log },
    control: inbox.address,
  });
  const held = startShareRenewal({
    ...{ renewShares: createRenewShares(redis, { workerId }), pools, shutdown, log },
    uses: () => slots.uses(shutdown.aborted),
    onRenewed() {
      slots.sharesChanged();
      queues?.checkFull().catch(() => {}); // the next renewal looks again
    },
  });
  shares = parts.use(held);
  await held.renewed;
  const served = serveQueues({
    ...{ models: planFile.models, pools, slots, connection: redis, workerId, concurrency, batchConcurrency },
    checksStalled: (pool) => held.membershipOf(pool).checksStalled,
    reader: use(connectForWork(config.redisUrl, log)),
    bodies: createBodiesHeld({ bodyBytesMax: config.bodyBytesMax }),
    work: { interactive: { processJob: processRequest, endLost, onRecovered: leases.putBack }, batch: batches.work },
    ...{ shutdown, metrics, log },
  });
  queues = parts.use(served);
  supervisor = batches.supervise();
  const removingDevices = startDeviceRemoval({
    redis,
    removeUnusedDevices: createRemoveUnusedDevices({ redis, store, daysKept: planFile.guestDaysKept, log }),
    acquireLock: createAcquireLock(redis, { workerId, holdMs: devicesHoldMs }),
    log,
  });
  state.becomeReady();
  log.info({ pools }, 'ready');

  await aborted(shutdown);
  // Whoever takes over the batches feeds their lines to workers that stay.
  await Promise.all([finish(served, { graceMs: config.shutdownGraceMs, log }), supervisor[Symbol.asyncDispose]()]);
  // At once, because each waits for a Redis that may be frozen until its own bound.
  const background = [removingDevices, batches, copyingAudit, usageDrainer, inbox];
  await Promise.all(background.map((part) => part[Symbol.asyncDispose]()));
}

/** Lets the jobs in hand end by themselves; those that have not when the grace is over go back to the queue. */
async function finish(queues: QueuesServed, { graceMs, log }: { graceMs: number; log: Log }) {
  log.info({ running: queues.running() }, 'shutting down: finishing the jobs in hand');
  const finished = queues.finish();
  if (await within(graceMs, finished)) return;
  log.warn({}, 'the grace is over: handing back what has sent nothing, ending what has');
  queues.requeueAll();
  if (!(await within(requeueMs, finished)))
    log.error({}, 'some jobs did not end; another worker will find them stalled');
}

function reporterOfBreakers({ metrics, log }: { metrics: WorkerMetrics; log: Log }) {
  return function report({ backend, model, breaker }: BreakerStatus): void {
    if (breaker === 'open') metrics.breakerOpened.inc({ backend, model });
    const level = breaker === 'open' ? 'warn' : 'info';
    log[level]({ backend, model, breaker }, 'a breaker has changed');
  };
}
