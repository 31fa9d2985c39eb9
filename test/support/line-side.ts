import { randomUUID } from 'node:crypto';
import { Registry } from 'prom-client';
import type { Batch } from '../../shared/batches/batch.ts';
import { temporarilyUnavailable } from '../../shared/errors.ts';
import { createBackendAgents } from '../../shared/fleet/backend-agents.ts';
import { createAdmit } from '../../shared/limits/admit.ts';
import { createAskLimits } from '../../shared/limits/ask-limits.ts';
import { createRelease } from '../../shared/limits/release.ts';
import { createSeed } from '../../shared/limits/seed.ts';
import { createSettle } from '../../shared/limits/settle.ts';
import { watchSuspensions } from '../../shared/limits/watch-suspensions.ts';
import { createAnswerBudget } from '../../shared/process/answer-budget.ts';
import type { Redis } from '../../shared/redis/connections.ts';
import { leasesKey, versionKey } from '../../shared/redis/keys.ts';
import { type Account, callerOf } from '../../shared/store/records/account.ts';
import { createOwnFields } from '../../workers/backend-client/body-for.ts';
import { createCallBackend } from '../../workers/backend-client/call-backend.ts';
import { createBackendSlots } from '../../workers/backends/backend-slots.ts';
import { createCallHistory } from '../../workers/backends/call-history.ts';
import { parseLine } from '../../workers/batches/files/parse-line.ts';
import { createAdmitLine, createKnownCallers } from '../../workers/batches/lines/admit-line.ts';
import { type BatchJob, batchJobSchema, requestIdOf } from '../../workers/batches/lines/batch-job.ts';
import { createEndLine } from '../../workers/batches/lines/end-line.ts';
import { createFinishLineAttempt } from '../../workers/batches/lines/finish-line-attempt.ts';
import type { LineEvent, SendLineEvent } from '../../workers/batches/lines/line-events.ts';
import { createFailLostLine, createProcessLine } from '../../workers/batches/lines/process-line.ts';
import { watchBatches } from '../../workers/batches/lines/watch-batches.ts';
import { createWriteResults } from '../../workers/batches/lines/write-results.ts';
import { createFindAnswer } from '../../workers/failover/find-answer.ts';
import type { TakenJob } from '../../workers/failover/run.ts';
import { createWorkerMetrics } from '../../workers/metrics.ts';
import { createLinePace } from '../../workers/queue/line-pace.ts';
import { createEndLeases } from '../../workers/requests/expire-leases.ts';
import { createStartRun } from '../../workers/requests/start-run.ts';
import { batchOf } from '../shared/store/batch-records.ts';
import { createSqliteHome } from '../shared/store/sqlite-home.ts';
import { type ModelServer, startModelServer } from '../stack/model-server.ts';
import { lineOf } from './batch-client.ts';
import { batchPlan } from './batch-plan.ts';
import { openLimits } from './limits-side.ts';
import { anyField } from './read-chat.ts';
import { recordedLog } from './recorded-log.ts';
import { openResultRoom } from './result-room.ts';
import { wholeLimits } from './whole-limits.ts';

type Options = {
  timeouts?: Record<string, number>;
  plans?: Record<string, object>;
  /** Replaces the address of the first model server. */
  url?: string;
  /** The number of backends. */
  servers?: number;
  /** Applies to each backend. */
  requestsAtOnce?: number;
  /** The clock while a line is run. */
  now?: () => number;
  /** What the account may hold. */
  bytesMax?: () => number;
};

/** Calls that a test can make fail: calls of the store, and scripts of Redis, by name. */
export type Breakable =
  | 'findLine'
  | 'recordRetry'
  | 'insertResults'
  | 'findAccount'
  | 'settle'
  | 'release'
  | 'startRun';

/** The parts of a worker that run the lines of one batch, without its queue: a real store, and model servers. */
export async function openLineSide(redis: Redis, options: Options = {}) {
  const { timeouts = {}, plans = {}, servers: count = 1, requestsAtOnce, now = () => performance.now() } = options;
  await using parts = new AsyncDisposableStack();
  const servers: ModelServer[] = [];
  for (let number = 1; number <= count; number++) {
    servers.push(parts.use(await startModelServer({ name: `onprem-${number}` })));
  }
  const { bytesMax = () => planFile.batch.accountBytesMax } = options;
  const urls = servers.map(({ url }, index) => (index === 0 ? (options.url ?? url) : url));
  const planFile = batchPlan({ urls, timeouts, plans, requestsAtOnce });
  const home = parts.use(await createSqliteHome());
  const store = parts.use(await home.open());
  const account = `user:${randomUUID()}`;
  const batch = batchOf({ account, counts: { total: 3, completed: 0, failed: 0 } });
  await store.batches.insertBatch(batch);

  const broken = new Set<Breakable>();
  const fragile = <Call extends (...given: never[]) => Promise<unknown>>(name: Breakable, call: Call): Call =>
    (async (...given: Parameters<Call>) => {
      const isOfStore = !['settle', 'release', 'startRun'].includes(name);
      if (broken.has(name)) throw isOfStore ? temporarilyUnavailable(new Error(name)) : new Error(`broken: ${name}`);
      return call(...given);
    }) as Call; // it has the same signature
  type Known = Pick<Account, 'plan' | 'suspended' | 'keys'>;
  let known: Known = { plan: 'free', suspended: false, keys: [] };
  let version = 1;
  const findAccount = fragile('findAccount', async () => ({ ...known, version, overageEnabled: false }) as Account); // the only fields that are read

  const { log, lines } = recordedLog();
  const registry = new Registry();
  const metrics = createWorkerMetrics(registry);
  const currentPlanFile = () => planFile;
  const agents = parts.use(createBackendAgents({ connectMs: () => planFile.timeouts.connectMs, onUnreadable() {} }));
  const slots = parts.use(
    createBackendSlots({ currentPlanFile, pools: () => ['default', 'large'], shareOf: wholeLimits(planFile) }),
  );
  const watch = parts.use(watchBatches({ store: store.batches, log, everyMs: 20, graceMs: 0 }));
  const admit = createAdmit(redis, { timeouts: () => planFile.timeouts, outboxLengthMax: 1_000 });
  const callers = createKnownCallers();
  const readCaller = async (of: string) => {
    const known = await findAccount();
    const caller = callerOf(of, known, planFile.defaultPlan);
    callers.keep(caller, known);
    return caller;
  };
  const look = () => readCaller(account);
  const suspensions = parts.use(watchSuspensions({ redis, look, log, everyMs: 20 }));
  const startRun = fragile('startRun', createStartRun(redis));
  const release = fragile('release', createRelease(redis));
  const settle = fragile('settle', createSettle(redis, { pauseMs: 1 }));
  const insertResults = fragile('insertResults', store.batches.insertResults.bind(store.batches));
  const room = openResultRoom(store, bytesMax, { now });
  const writeResult = createWriteResults({ store: { insertResults }, room, metrics, log, pauseMs: 10 });
  const events: LineEvent[] = [];
  const sendLineEvent: SendLineEvent = ({ batch, line, number }, change) =>
    void events.push({ ...change, batch, line, number });
  const records = {
    findLine: fragile('findLine', store.batches.findLine.bind(store.batches)),
    recordRetry: fragile('recordRetry', store.batches.recordRetry.bind(store.batches)),
  };
  const endLine = createEndLine({ settle, sendLineEvent, metrics, log });
  const finishAttempt = createFinishLineAttempt({
    findUsageRecord: (requestId) => store.usage.findUsageRecord(requestId),
    ...{ store: records, startRun, release, writeResult, endLine, sendLineEvent, metrics, log },
  });
  const linePace = createLinePace({ now: () => 0 }); // what is left to pay does not depend on how long a test takes
  const processLine = createProcessLine({
    store: records,
    finishAttempt,
    requestMs: () => planFile.timeouts.requestMs,
    admitLine: createAdmitLine({
      admit,
      askLimits: createAskLimits({
        seed: createSeed({ redis, store: store.usage }),
        reread: readCaller,
      }),
      callers,
      currentPlanFile,
    }),
    findAnswer: createFindAnswer({
      ...{ slots, metrics, history: createCallHistory(), log, apiKeyOf: () => undefined, random: () => 0 },
      callBackend: createCallBackend({ agents, timeouts: () => planFile.timeouts }),
      ownFields: createOwnFields({ plans: () => planFile.plans, pepper: undefined }),
      firstTokenMs: () => planFile.timeouts.firstTokenMs,
      models: () => planFile.models,
    }),
    answers: createAnswerBudget({ bytesMax: 100_663_296 }),
    linePace,
    endLine,
    ...{ room, startRun, writeResult, followBatch: watch.follow, sendLineEvent, metrics, log, now },
    followAccount: suspensions.follow,
  });
  const limits = openLimits(redis, { account });
  const takings = new Map<string, number>();

  /** The job of one line, as the scheduler creates it. */
  function jobOf(given: Partial<BatchJob> & { model?: string } = {}): BatchJob {
    const { line = 1, number = 1, model = 'small-chat' } = given;
    const read = parseLine(
      { number: line, bytes: Buffer.from(lineOf(`line ${line}`, { model })) },
      { ...planFile, endpoint: '/v1/chat/completions', listedFields: anyField },
    );
    if (!('parsed' in read)) throw new Error(JSON.stringify(read));
    const { cost, ...call } = read.parsed.call;
    return batchJobSchema.parse({
      ...{ ...call, customId: read.parsed.customId, requestId: requestIdOf(batch.id, line, number), account },
      ...{ keyId: '', plan: 'free', earlierRuns: [], batch: batch.id, line, number, failures: 0, losses: 0 },
      ...{
        errorFormat: 'flat',
        reservedTokens: cost.reservedTokens,
        promptEstimate: cost.promptTokens,
        tellTo: 'svc:control:test',
      },
      ...given,
    });
  }

  /** Takes a job from its queue. Each call counts as one more attempt to take it. */
  function run(job: BatchJob = jobOf(), signal: AbortSignal = new AbortController().signal) {
    const taken = (takings.get(job.requestId) ?? 0) + 1;
    takings.set(job.requestId, taken);
    return processLine({ data: structuredClone(job), taken, signal } satisfies TakenJob);
  }

  const owned = parts.move();

  return {
    ...{ account, batch, store: store.batches, servers, slots, broken, events, lines, metrics, registry, planFile },
    ...{ jobOf, run, startRun, release, writeResult, linePace },
    failLost: createFailLostLine({
      writeResult,
      processLine,
      finishAttempt,
      shutdown: new AbortController().signal,
      pauseMs: 10,
    }),
    endLeases: () =>
      createEndLeases(redis, { requestMs: () => planFile.timeouts.requestMs })(
        { account, lane: 'batch' },
        Number.MAX_SAFE_INTEGER,
      ),
    /** Changes the account in the store. Processes that have it cached are notified. */
    async change(change: Partial<typeof known>): Promise<void> {
      known = { ...known, ...change };
      version++;
      await redis.del(versionKey(account));
    },
    async moveBatch(change: Partial<Batch>): Promise<void> {
      await store.batches.changeBatch(batch.id, (found) => ({
        result: undefined,
        ...(found && { next: { ...found, ...change } }),
      }));
    },
    result: async (line = 1) => (await store.batches.findLine(batch.id, line))?.result,
    retries: () => store.batches.listRetries(batch.id),
    /** Occupies the capacity of one backend until the returned function is called. */
    async occupy(): Promise<() => void> {
      const { signal } = new AbortController();
      const ask = { model: 'small-chat', lane: 'interactive', tried: new Set<string>(), waitMs: 0, signal } as const;
      const taken = await slots.take({ ...ask, holder: 'user:other', promptTokensMin: 0 });
      if (taken.outcome !== 'slot') throw new Error(`there is no room: ${taken.outcome}`);
      return () => taken.slot.end({ outcome: 'abandoned' });
    },
    /** How often a line was postponed, by the reasons that occurred. */
    async pauses(): Promise<Record<string, number>> {
      const { values } = await metrics.batchLinePauses.get();
      return Object.fromEntries(values.flatMap(({ labels, value }) => (value > 0 ? [[labels.reason, value]] : [])));
    },
    eventTypes: () => events.map(({ type }) => type),
    leases: () => redis.hlen(leasesKey(account, 'batch')),
    /** The tokens of this month: charged and reserved. */
    async charged(): Promise<{ used: number; reserved: number }> {
      const { after } = await createSeed({ redis, store: store.usage })(
        { account },
        new Date().toISOString().slice(0, 7),
        'compare',
      );
      return { used: after.chargedTokens, reserved: after.reservedTokens };
    },
    /** The usage record of each request that has ended, oldest first. */
    records: async () => (await limits.outbox()).filter((record) => record.account === account),
    calls: () => servers.flatMap((server) => server.calls()),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

export type LineSide = Awaited<ReturnType<typeof openLineSide>>;
