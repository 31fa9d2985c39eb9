import '../shared/process/require-node-24.mjs';
import type { Redis } from 'ioredis';
import { ApiError } from '../shared/errors.ts';
import { sendCancellation } from '../shared/jobs/cancellation.ts';
import { createAdmit } from '../shared/limits/admit.ts';
import { createAskLimits } from '../shared/limits/ask-limits.ts';
import { createRelease } from '../shared/limits/release.ts';
import { createSeed } from '../shared/limits/seed.ts';
import { createSettle } from '../shared/limits/settle.ts';
import { watchSuspensions } from '../shared/limits/watch-suspensions.ts';
import { greetStore, openStore } from '../shared/open-store.ts';
import { type IngressConfig, readIngressConfig } from '../shared/process/config.ts';
import type { Log } from '../shared/process/log.ts';
import { createRegistry } from '../shared/process/metrics.ts';
import { atMostEvery, followProcessState, listenForOperations } from '../shared/process/operations.ts';
import { runProcess } from '../shared/process/run-process.ts';
import { aborted, within } from '../shared/process/shutdown.ts';
import { connectForRequests, connectForWork, waitForRedis } from '../shared/redis/connections.ts';
import { authFailuresKey, guestCallsKey } from '../shared/redis/keys.ts';
import { outboxLengthFor } from '../shared/redis/outbox-bound.ts';
import { type Inbox, waitUntilOpen } from '../shared/redis/stream-inbox.ts';
import { createApp } from './app.ts';
import { createBodyBudget } from './bodies/body-budget.ts';
import { createRefusedBodies } from './bodies/refused-bodies.ts';
import { createCallers } from './callers/callers.ts';
import { createCheckCaller } from './callers/check-caller.ts';
import { createGuestKeys } from './callers/guests/guest-keys.ts';
import { createLimitCalls } from './callers/guests/limit-calls.ts';
import { createLimitMints } from './callers/guests/limit-mints.ts';
import { createIssuerKeys } from './callers/issuer/issuer-keys.ts';
import { createKeyUse } from './callers/key-use.ts';
import { createChangeAccount } from './callers/revocation/change-account.ts';
import { createSharedCallers } from './callers/shared-callers.ts';
import { createSignIn } from './callers/sign-in.ts';
import { createDocumentation } from './documentation/documentation.ts';
import { exampleModel } from './documentation/example-model.ts';
import { createRenderReference } from './documentation/reference/render-reference.ts';
import { createLimitAuthFailures } from './limits/limit-auth-failures.ts';
import { createMinuteCounts } from './limits/minute-counts.ts';
import { createReleaseLater } from './limits/release-later.ts';
import { createSettleInterrupted } from './limits/settle-interrupted.ts';
import { listen } from './listener/listener.ts';
import { createIngressMetrics } from './metrics.ts';
import { answerBrokenRequest } from './middleware/answer-errors.ts';
import { nextRequestId } from './middleware/assign-request-id.ts';
import { securityHeaders } from './middleware/set-security-headers.ts';
import { createOpenApiDocument } from './openapi/document.ts';
import { createConsole } from './pages/console/console.ts';
import { createStaticContent } from './pages/static-content.ts';
import { createQueueDashboard } from './queue/dashboard/queue-dashboard.ts';
import { observeQueues } from './queue/observe-queues.ts';
import { openQueues } from './queue/open-queues.ts';
import type { RequestQueues } from './queue/request-queues.ts';
import { listenForReplies } from './replies/reply-listener.ts';
import type { JobLocation } from './replies/waiting-request.ts';
import { createWaitingRequests } from './replies/waiting-requests.ts';

const bodyMs = 30_000;
const checkEveryMs = 10_000;
/** What settling a request that broke off may still take once nobody waits any more. */
const settleMs = 3_000;

await runProcess({ name: 'ingress', readConfig: readIngressConfig, run });

async function run({ config, log, shutdown }: { config: IngressConfig; log: Log; shutdown: AbortSignal }) {
  await using parts = new AsyncDisposableStack();
  const { planFile, links } = config;
  const use = (redis: Redis) => parts.adopt(redis, (connection) => connection.disconnect());

  const registry = createRegistry();
  const metrics = createIngressMetrics(registry);
  const store = parts.use(await openStore(config.databaseUrl, { log }));
  void greetStore(store, log);
  const { issuer } = config.signIn;
  const issuerKeys = parts.use(createIssuerKeys({ issuer, log }));
  const signIn = createSignIn({ ...config.signIn, issuerKeys });
  const redis = use(connectForRequests(config.redisUrl, log));
  const replyRedis = use(connectForRequests(config.replyRedisUrl, log));
  const dashboardRedis = use(connectForRequests(config.redisUrl, log));
  const replyReader = use(connectForWork(config.replyRedisUrl, log));

  const state = followProcessState(shutdown);
  const checks = { store: () => store.ping(), identityProvider: atMostEvery(checkEveryMs, signIn.check) };
  let inbox: Inbox | undefined;
  /** While it has nowhere to receive answers, each request would be refused. */
  const replyRedisIsUsable = async () => {
    await replyRedis.ping();
    if (inbox !== undefined && inbox.address() === undefined) throw new Error('no reply could be received');
  };
  const required = { redis: () => redis.ping(), replyRedis: replyRedisIsUsable };
  const dashboard = createQueueDashboard({ writable: config.queue.dashboardWritable, log });
  const operations = parts.use(
    await listenForOperations({
      ...config.operations,
      registry,
      state: state.current,
      required,
      checks,
      pages: dashboard.pages,
      log,
    }),
  );
  log.info({ port: operations.port }, 'operations listener is up; waiting for Redis');
  const { memoryBytes } = await waitForRedis([redis, replyRedis, dashboardRedis], { signal: shutdown, log });

  const { models } = planFile;
  const opened = await openQueues({ planFile, bounds: config.queue, redis, dashboardRedis, dashboard, log });
  const { queues, queueDepths, queueBounds, queueTurns, listWorkers } = parts.use(opened);
  const bodyBudget = createBodyBudget({ bytesMax: config.bodyBudgetBytes });
  const release = createReleaseLater({ release: createRelease(redis), log });
  const settleInterrupted = createSettleInterrupted({ settle: createSettle(redis), metrics, log });
  const settlings = new Set<Promise<void>>();
  const waitingRequests = createWaitingRequests({
    cancel: canceller({ queues, replyRedis, log }),
    release,
    settleInterrupted(lease, delivered) {
      const settling = settleInterrupted(lease, delivered).finally(() => settlings.delete(settling));
      settlings.add(settling);
    },
  });
  inbox = parts.use(listenForReplies({ reader: replyReader, redis: replyRedis, waitingRequests, log }));
  await waitUntilOpen(inbox, shutdown);
  metrics.observe({
    waiting: waitingRequests.count,
    ...observeQueues({ models, queueDepths, listWorkers, oldestWaiting: waitingRequests.oldest }),
    bytesWaiting: queueBounds.bytesWaiting,
    bodyBytesHeld: bodyBudget.bytesHeld,
    issuerKeysAgeMs: issuerKeys.ageMs,
  });

  const keyUse = parts.use(createKeyUse({ store, log }));
  const guestKeys = createGuestKeys({ secrets: config.guestKeySecrets, peppers: config.keyPeppers });
  const sharedCallers = createSharedCallers({ redis, secretsInUse: guestKeys.secretsInUse, log });
  const callers = createCallers({
    store,
    sharedCallers,
    guestSecretsInUse: guestKeys.inUse,
    defaultPlan: planFile.defaultPlan,
  });

  const outboxLengthMax = outboxLengthFor(config.outboxLengthMax, memoryBytes);
  const askLimits = createAskLimits({ seed: createSeed({ redis, store }), reread: callers.reread });
  const admit = createAdmit(redis, { timeouts: planFile.timeouts, outboxLengthMax });
  const giveUp = new AbortController();
  const lookAtAccount = async (account: string) => {
    const request = { account, subject: { account }, requestId: nextRequestId(), caller: undefined };
    return (await askLimits(request, admit.look)).caller;
  };
  const suspensions = parts.use(watchSuspensions({ redis, look: lookAtAccount, log }));
  const openApiDocument = createOpenApiDocument({ ...links, authUrl: issuer });
  const headers = securityHeaders(links.baseUrl);
  const app = createApp({
    log,
    metrics,
    planFile,
    baseUrl: links.baseUrl,
    securityHeaders: headers,
    docsUrl: links.docsUrl,
    topupUrl: links.topupUrl,
    consoleUrl: links.consoleUrl,
    console: createConsole({ ...links, ...config.signIn }),
    trustedProxyHops: config.trustedProxyHops,
    peppers: config.keyPeppers,
    store,
    signIn,
    callers,
    checkCaller: createCheckCaller({ admit, release, askLimits, keyUse }),
    changeAccount: createChangeAccount({ redis, store, log }),
    guestKeys,
    sharedCallers,
    limitAuthFailures: createLimitAuthFailures({
      failures: createMinuteCounts({ redis, keyOf: authFailuresKey, log }),
      perMinute: config.authFailuresPerMinute,
    }),
    limitCalls: createLimitCalls({
      calls: createMinuteCounts({ redis, keyOf: guestCallsKey, log }),
      perMinute: planFile.guestCallsPerMinute,
    }),
    limitMints: createLimitMints(redis, {
      mintsPerHour: planFile.guestMintsPerHour,
      mintsPerHourTotal: planFile.guestMintsPerHourTotal,
    }),
    keyUse,
    queues,
    queueTurns,
    queueBounds,
    waitingRequests,
    suspensions,
    replyTo: inbox.address,
    openApiDocument: createStaticContent(JSON.stringify(openApiDocument), 'application/json; charset=utf-8'),
    documentation: createDocumentation({
      links: { ...links, authUrl: issuer },
      model: exampleModel(planFile),
      renderReference: createRenderReference({ document: openApiDocument }),
    }),
    body: {
      bodyBytesMax: config.bodyBytesMax,
      bodyMs,
      giveUp: giveUp.signal,
      budget: bodyBudget,
      refusedBodies: createRefusedBodies(),
    },
  });
  const listener = await listen({
    ...config.listener,
    connections: { ...config.connections, onRefused: () => metrics.connectionsRefused.inc() },
    onRequest: app.callback(),
    onBrokenRequest: answerBrokenRequest({ log, docsUrl: links.docsUrl, securityHeaders: headers }),
  });
  metrics.observeConnections(listener.connections);
  state.becomeReady();
  log.info({ port: listener.port }, 'ready');

  await aborted(shutdown);
  log.info({ waiting: waitingRequests.count() }, 'shutting down: finishing what has begun');
  await listener.close({
    graceMs: config.shutdownGraceMs,
    giveUp: () => {
      const shuttingDown = new ApiError('SERVICE_UNAVAILABLE', 'The service is shutting down. Retry.');
      giveUp.abort(shuttingDown);
      waitingRequests.close(shuttingDown);
    },
  });
  await within(settleMs, Promise.all(settlings));
}

/** A job is taken out of its queue or, once it has started, aborted by its worker. Either is a favour and never awaited. */
function canceller({ queues, replyRedis, log }: { queues: RequestQueues; replyRedis: Redis; log: Log }) {
  return function cancel({ requestId, model, control }: JobLocation): void {
    const cancelling =
      control !== undefined ? sendCancellation(replyRedis, control, requestId) : queues.remove(model ?? '', requestId);
    cancelling.catch((error: unknown) => log.debug({ err: error, requestId }, 'a job could not be cancelled'));
  };
}
