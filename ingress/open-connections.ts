import type { Registry } from 'prom-client';
import { sendCancellation, sendTaken, type TakenPieces } from '../shared/jobs/control-messages.ts';
import { createRelease } from '../shared/limits/release.ts';
import { createSettle } from '../shared/limits/settle.ts';
import { openAnswerBudget } from '../shared/process/answer-budget.ts';
import type { IngressConfig } from '../shared/process/config.ts';
import type { Log } from '../shared/process/log.ts';
import { greetStore, openStore } from '../shared/process/open-store.ts';
import { connectForRequests, connectForWork, type Redis } from '../shared/redis/connections.ts';
import type { Store } from '../shared/store/records/store.ts';
import { createIssuerKeys, type IssuerKeys } from './authentication/issuer-keys.ts';
import { createReleaseLater, createSettleInterrupted, createSettlements } from './limits/settle-interrupted.ts';
import type { IngressMetrics } from './metrics.ts';
import type { RequestQueues } from './queue/queue-turns.ts';
import type { JobLocation } from './replies/waiting-request.ts';
import { createWaitingRequests } from './replies/waiting-requests.ts';

export type Connections = AsyncDisposable & {
  store: Store;
  issuerKeys: IssuerKeys;
  redis: Redis;
  replyRedis: Redis;
  dashboardRedis: Redis;
  /** Opens a connection for blocked reads of a reply stream. The caller closes it. */
  connectReader: () => Redis;
};

/** Opens the connections to the store, to the identity provider and to Redis. Does not wait until Redis answers. */
export async function openConnections(config: IngressConfig, log: Log): Promise<Connections> {
  const owned = new AsyncDisposableStack();
  const adopt = (redis: Redis) => owned.adopt(redis, (connection) => connection.disconnect());
  const store = owned.use(await openStore(config.databaseUrl, { log }));
  void greetStore(store, config.databaseUrl, log); // if it throws, the process ends
  const issuerKeys = owned.use(createIssuerKeys({ issuer: config.signIn.issuer, log }));
  const replySetting = config.replyRedisUrl === config.redisUrl ? 'REDIS_URL' : 'REPLY_REDIS_URL';
  const redis = adopt(connectForRequests(config.redisUrl, log));
  const replyRedis = adopt(connectForRequests(config.replyRedisUrl, log, replySetting));
  const dashboardRedis = adopt(connectForRequests(config.redisUrl, log));
  const connectReader = () => connectForWork(config.replyRedisUrl, log, replySetting);
  return {
    store,
    issuerKeys,
    redis,
    replyRedis,
    dashboardRedis,
    connectReader,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

type WaitingDeps = {
  queues: RequestQueues;
  redis: Redis;
  replyRedis: Redis;
  answerBudgetBytes: number;
  registry: Registry;
  metrics: IngressMetrics;
  log: Log;
};

/** Creates the requests that wait for their reply, and what ends them. */
export function openWaiting({ queues, redis, replyRedis, metrics, log, ...deps }: WaitingDeps) {
  const answers = openAnswerBudget({ bytesMax: deps.answerBudgetBytes, registry: deps.registry });
  const release = createReleaseLater({ release: createRelease(redis), log });
  const settlements = createSettlements(createSettleInterrupted({ settle: createSettle(redis), metrics, log }));
  const waitingRequests = createWaitingRequests({
    cancel: canceller({ queues, replyRedis, log }),
    release: ({ account, requestId, report: { keyId }, claim }) => release({ account, keyId, requestId, claim }),
    settleInterrupted: settlements.begin,
    answers,
    reportTaken: takenReporter({ replyRedis, log }),
  });
  return { waitingRequests, settlements, release };
}

/** Removes a job from its queue, or lets its worker abort it if it has started. Both are best effort and never awaited. */
function canceller({ queues, replyRedis, log }: Pick<WaitingDeps, 'queues' | 'replyRedis' | 'log'>) {
  return function cancel({ requestId, model, control }: JobLocation): void {
    const cancelling =
      control !== undefined ? sendCancellation(replyRedis, control, requestId) : queues.remove(model ?? '', requestId);
    cancelling.catch((error: unknown) => log.debug({ err: error, requestId }, 'a job could not be cancelled'));
  };
}

/** Best effort: without the report no more comes, and the deadline ends the request. */
function takenReporter({ replyRedis, log }: Pick<WaitingDeps, 'replyRedis' | 'log'>) {
  return function reportTaken(control: string, taken: TakenPieces): void {
    sendTaken(replyRedis, control, taken).catch((error: unknown) =>
      log.debug({ err: error, requestId: taken.request }, 'what a client has taken could not be reported'),
    );
  };
}
