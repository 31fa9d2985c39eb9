import { randomUUID } from 'node:crypto';
import { Registry } from 'prom-client';
import { createBackendAgents } from '../../shared/fleet/backend-agents.ts';
import { createKeptAnswers } from '../../shared/jobs/idempotency.ts';
import { type InferenceJob, inferenceJobSchema } from '../../shared/jobs/inference-job.ts';
import type { Reply } from '../../shared/jobs/replies.ts';
import { createSettle } from '../../shared/limits/settle.ts';
import { type PlanFile, parsePlanFile } from '../../shared/plan-file/plan-file.ts';
import { createAnswerBudget } from '../../shared/process/answer-budget.ts';
import type { Redis } from '../../shared/redis/connections.ts';
import { createOwnFields } from '../../workers/backend-client/body-for.ts';
import { createCallBackend } from '../../workers/backend-client/call-backend.ts';
import { createBackendSlots } from '../../workers/backends/backend-slots.ts';
import { createCallHistory } from '../../workers/backends/call-history.ts';
import {
  createFindAnswer,
  createRetryBudget,
  type FindAnswer,
  type RetryBudget,
} from '../../workers/failover/find-answer.ts';
import type { StopReason } from '../../workers/failover/run.ts';
import { createWorkerMetrics } from '../../workers/metrics.ts';
import { createPieceReaders } from '../../workers/replies/send-pieces.ts';
import { createReplyFrames } from '../../workers/replies/send-reply.ts';
import { watchReaders } from '../../workers/replies/watch-readers.ts';
import { createEndRequest } from '../../workers/requests/end-request.ts';
import { createProcessRequest } from '../../workers/requests/process-request.ts';
import { createRenewLeases, startLeaseHeartbeat } from '../../workers/requests/start-lease-heartbeat.ts';
import { createMarkStreaming, createStartRun } from '../../workers/requests/start-run.ts';
import { type ModelServer, startModelServer } from '../stack/model-server.ts';
import { patientConnecting, planFileFor } from '../stack/plan.ts';
import { streamedText } from './chat.ts';
import { openLimits } from './limits-side.ts';
import { recordedLog } from './recorded-log.ts';
import { openReplyStream } from './reply-stream.ts';
import { wholeLimits } from './whole-limits.ts';

export const messages = [{ role: 'user', content: 'Grüße, 東京!' }];

type Options = {
  timeouts?: Record<string, number>;
  /** Replaces the address of the first model server. */
  url?: string;
  /** Applies to each backend. */
  requestsAtOnce?: number;
  /** `answer_bytes_max` of the model. */
  answerBytesMax?: number | undefined;
  retryBudget?: RetryBudget;
  /** The health test of each backend. */
  test?: () => Promise<boolean>;
  /** Replaces the calls of model servers. */
  findAnswer?: FindAnswer;
};

/** The parts of a worker without its queue, with three model servers: two on-prem replicas and the cloud. */
export async function openWorkerSide(
  redis: Redis,
  { retryBudget = createRetryBudget(), findAnswer, test = async () => true, ...planned }: Options = {},
) {
  await using parts = new AsyncDisposableStack();
  const start = async (name: string) => parts.use(await startModelServer({ name }));
  const servers: [ModelServer, ModelServer, ModelServer] = [
    await start('onprem-a'),
    await start('onprem-b'),
    await start('cloud'),
  ];
  const planFile = planFor({ servers, ...planned });
  const currentPlanFile = () => planFile;
  const agents = parts.use(createBackendAgents({ connectMs: () => planFile.timeouts.connectMs, onUnreadable() {} }));
  const slots = parts.use(
    createBackendSlots({ currentPlanFile, pools: () => ['default', 'large'], shareOf: wholeLimits(planFile), test }),
  );
  const startRun = createStartRun(redis);
  const registry = new Registry();
  const { log, lines } = recordedLog();
  const metrics = createWorkerMetrics(registry);
  const keptAnswers = createKeptAnswers(['a pepper']);
  const settle = createSettle(redis);
  const pieceReaders = createPieceReaders();
  const answers = createAnswerBudget({ bytesMax: 100_663_296 });
  const endRequest = createEndRequest({ settle, oneConnection: true, keptAnswers, metrics, log });
  const processRequest = createProcessRequest({
    currentPlanFile,
    startRun,
    markStreaming: createMarkStreaming(redis),
    findAnswer:
      findAnswer ??
      createFindAnswer({
        slots,
        retryBudget,
        apiKeyOf: () => undefined,
        callBackend: createCallBackend({ agents, timeouts: () => planFile.timeouts }),
        ownFields: createOwnFields({ plans: () => planFile.plans, pepper: undefined }),
        firstTokenMs: () => planFile.timeouts.firstTokenMs,
        models: () => planFile.models,
        metrics,
        history: createCallHistory(),
        log,
        random: () => 0,
      }),
    endRequest,
    replyFrames: createReplyFrames({ redis }),
    answers,
    pieceReaders,
    leases: parts.use(
      startLeaseHeartbeat({ renewLeases: createRenewLeases(redis), queueMs: () => planFile.timeouts.queueMs, log }),
    ),
    followReader: parts.use(watchReaders({ redis, log, everyMs: 20 })).follow,
    control: 'svc:control:test',
    metrics,
    log,
  });
  const stream = await openReplyStream(redis);
  let takings = 0;
  const limits = openLimits(redis, { account: `user:${randomUUID()}` });
  await limits.prepare(new Date().toISOString().slice(0, 7));

  async function admit(given: Partial<InferenceJob> = {}): Promise<InferenceJob> {
    const name = randomUUID();
    const admitted = await limits.admit({ requestId: name });
    if (admitted.outcome !== 'admitted') throw new Error(`the job was not admitted: ${admitted.outcome}`);
    const job = jobFor(stream.key, {
      requestId: limits.idOf(name),
      account: limits.account,
      ...admitted.admission,
      ...given,
    });
    await limits.setTimes(name, job);
    return job;
  }

  const owned = parts.move();

  return {
    servers,
    slots,
    processRequest,
    startRun,
    pieceReaders,
    answers,
    endRequest,
    limits,
    registry,
    lines,
    stream,
    /** An admitted job. Its times default to those of its admission. */
    admit,
    /** Runs a job to its end. A partial job is admitted first. `stop` aborts it with its reason. */
    async run(given: Partial<InferenceJob> | InferenceJob = {}, stop = new AbortController()) {
      const data = isWhole(given) ? given : await admit(given);
      return processRequest({ data, taken: ++takings, signal: stop.signal });
    },
    /** The usage record of each request that has ended, oldest first. */
    records: async () => (await limits.outbox()).filter(({ account }) => account === limits.account),
    stopper: () => {
      const controller = new AbortController();
      return { controller, stop: (reason: StopReason) => controller.abort(reason) };
    },
    calls: () => servers.map((server) => server.calls().length),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

export type WorkerSide = Awaited<ReturnType<typeof openWorkerSide>>;

type Plan = { servers: [ModelServer, ModelServer, ModelServer] } & Pick<
  Options,
  'timeouts' | 'url' | 'requestsAtOnce' | 'answerBytesMax'
>;

function planFor({ servers: [first, second, cloud], timeouts, url, requestsAtOnce, answerBytesMax }: Plan): PlanFile {
  const room = requestsAtOnce === undefined ? {} : { requests_at_once: requestsAtOnce };
  const backends = {
    'onprem-a': { url: url ?? first.url, location: 'on-prem' as const, ...room },
    'onprem-b': { url: second.url, location: 'on-prem' as const, ...room },
    cloud: { url: cloud.url, location: 'cloud' as const, model: 'upstream-model', ...room },
  };
  const limited = { tier: 'standard', pool: 'default', answer_bytes_max: answerBytesMax };
  const models = answerBytesMax === undefined ? {} : { 'medium-chat': limited };
  const parsed = parsePlanFile(planFileFor({ backends, models, timeouts: { ...patientConnecting, ...timeouts } }));
  if ('issues' in parsed) throw new Error(JSON.stringify(parsed.issues));
  return parsed.planFile;
}

export function jobFor(replyTo: string, given: Partial<InferenceJob>): InferenceJob {
  const now = Date.now();
  const streaming = given.stream === true ? { stream: true, stream_options: { include_usage: true } } : {};
  return {
    requestId: `req_${randomUUID()}`,
    account: 'user:alice',
    keyId: 'k',
    plan: 'free',
    model: 'medium-chat',
    tier: 'standard',
    endpoint: '/v1/chat/completions',
    stream: false,
    includeUsage: false,
    assembled: false,
    choices: 1,
    promptEstimate: 0,
    payload: JSON.stringify({ messages, ...streaming }),
    outputTokensMax: 4_096,
    limitFields: [],
    replyTo,
    admittedAt: now,
    startBy: now + 30_000,
    deadline: now + 60_000,
    overage: false,
    earlierRuns: [],
    ...given,
  };
}

function isWhole(given: Partial<InferenceJob>): given is InferenceJob {
  return inferenceJobSchema.safeParse(given).success;
}

/** The combined text of replies, complete or streamed. */
export function textOf(replies: readonly Reply[]): string {
  const end = replies.find(({ kind }) => kind === 'end');
  if (end?.kind === 'end' && end.data.body !== undefined) return JSON.parse(end.data.body).choices[0].message.content;
  return streamedText(`${chunksOf(replies)}data: [DONE]\n\n`);
}

export function chunksOf(replies: readonly Reply[]): string {
  return replies.map((reply) => (reply.kind === 'chunk' ? reply.data : '')).join('');
}

/**
 * Consecutive chunks count once, and a leading `started` is omitted: tests of the sequence do not depend on how text is buffered, or on
 * whether a run ended before it reported its start.
 */
export function kindsOf(replies: readonly Reply[]): string[] {
  return replies
    .filter(({ kind, sequence }) => kind !== 'started' || sequence > 0)
    .map(({ kind }) => kind)
    .filter((kind, index, all) => kind !== 'chunk' || all[index - 1] !== 'chunk');
}
