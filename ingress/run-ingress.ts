import { setTimeout as sleep } from 'node:timers/promises';
import { aborted, within } from '../shared/concurrency/shutdown.ts';
import { createAffinityKeys } from '../shared/endpoints/affinity-keys.ts';
import { ApiError } from '../shared/errors.ts';
import { createBackendPauses } from '../shared/fleet/backend-pauses.ts';
import { createFleetCounts, type FleetCounts } from '../shared/fleet/fleet-counts.ts';
import type { IngressLoad } from '../shared/fleet/note-process.ts';
import { createKeptAnswers } from '../shared/jobs/idempotency.ts';
import { outboxLengthFor } from '../shared/jobs/usage-outbox.ts';
import { type IngressConfig, readIngressConfig } from '../shared/process/config.ts';
import type { Log } from '../shared/process/log.ts';
import { createRemoveOldSeries } from '../shared/process/metrics.ts';
import { atMostEvery, followProcessState, listenForOperations } from '../shared/process/operations.ts';
import { runProcess } from '../shared/process/run-process.ts';
import { checkWritesOfNodes, createCheckWrites } from '../shared/redis/check-redis.ts';
import { queuePrefix } from '../shared/redis/keys.ts';
import { type Inbox, waitUntilOpen } from '../shared/redis/stream-inbox.ts';
import { waitForRedis } from '../shared/redis/wait-for-redis.ts';
import type { Store } from '../shared/store/records/store.ts';
import { openTelemetry } from '../shared/tracing/open-telemetry.ts';
import { createResolveHost } from '../shared/webhooks/webhook-address.ts';
import { createWebhookSecrets } from '../shared/webhooks/webhook-secrets.ts';
import { showPlanFile } from './api/present-plan-file.ts';
import { methodsOf } from './api/route.ts';
import { createApp } from './app.ts';
import type { HttpParts } from './app-parts.ts';
import { createSignIn, type SignIn } from './authentication/sign-in.ts';
import { createPages } from './create-pages.ts';
import { createInsertWithRoom } from './files/account-room.ts';
import { createCopyLines } from './files/copy-lines.ts';
import { createUploadFile } from './files/upload-file.ts';
import { createRefusalCounts } from './limits/count-refusals.ts';
import { createBodyBudget, createLargeBodies, createRefusedBodies } from './listener/body-budget.ts';
import { type Listener, listen } from './listener/listener.ts';
import { createIngressMetrics, type IngressMetrics } from './metrics.ts';
import { answerBrokenRequest } from './middleware/answer-errors.ts';
import { securityHeaders } from './middleware/security-headers.ts';
import { notePlanFiles } from './note-plan-files.ts';
import { openAuthentication } from './open-authentication.ts';
import { type Connections, openConnections, openWaiting } from './open-connections.ts';
import { type OpenedPlanFile, openPlanFile } from './open-plan-file.ts';
import { openQueues } from './queue/open-queues.ts';
import { createQueueDashboard, type QueueDashboard } from './queue/queue-dashboard.ts';
import { observeQueues } from './queue/queue-depths.ts';
import { listenForReplies, type WaitingRequests, watchNodes } from './replies/waiting-requests.ts';
import { createRequestLookUp } from './requests/find-requests.ts';
import { createHourSums } from './requests/hour-sums.ts';
import { createRequestsToEnd } from './requests/requests-to-end.ts';
import { routes } from './routes.ts';

const bodyMs = 30_000;
const checkEveryMs = 10_000;
/** The time that settling interrupted requests may still take after no client waits any more. */
const settleMs = 3_000;

/** The life of an ingress, until its process exits. */
export function runIngress(): Promise<void> {
  return runProcess({ name: 'ingress', readConfig: readIngressConfig, run });
}

async function run({ config, log, shutdown }: { config: IngressConfig; log: Log; shutdown: AbortSignal }) {
  await using parts = new AsyncDisposableStack();
  const { registry, tracing } = parts.use(await openTelemetry({ config, process: 'ingress', log }));
  const opened = openPlanFile({ source: config.planFile, registry, log });
  const { current: currentPlanFile } = opened.planFile;
  const metrics = createIngressMetrics(registry);
  const connections = parts.use(await openConnections(config, log));
  const { store, issuerKeys, redis, replyRedis, dashboardRedis } = connections;
  const signIn = createSignIn({ ...config.signIn, issuerKeys, log });
  const state = followProcessState(shutdown);
  let inbox: Inbox | undefined;
  const dashboard = createQueueDashboard({ writable: config.queue.dashboardWritable, log });
  const operating = { config, opened, connections, signIn, registry, dashboard, log };
  const operations = parts.use(await openOperations({ ...operating, state: state.current, inbox: () => inbox }));
  log.info({ port: operations.port }, 'operations listener is up; waiting for Redis');
  const { memoryBytes } = await waitForRedis([redis, replyRedis, dashboardRedis], { signal: shutdown, log });

  const { queues, queueDepths, queueBounds, queueTurns, listWorkers } = parts.use(
    await openQueues({ planFile: opened.planFile, bounds: config.queue, redis, dashboardRedis, dashboard, log }),
  );
  const replying = { ...config, registry, metrics, log, queues, redis, replyRedis };
  const { waitingRequests, settlements, release } = openWaiting(replying);
  inbox = parts.use(listenForReplies({ ...connections, redis: replyRedis, waitingRequests, log }));
  await waitUntilOpen(inbox, shutdown);
  parts.use(watchNodes({ redis, waitingRequests }));
  const giveUp = new AbortController();
  const common = { config, currentPlanFile, redis, store, log };
  const outboxLengthMax = outboxLengthFor(config.outboxLengthMax, memoryBytes);
  const refusals = parts.use(createRefusalCounts({ redis, outboxLengthMax, log }));
  const counting = { metrics, refusals, fleetCounts: createFleetCounts() };
  const http = createHttpParts({ ...common, ...counting, tracing, giveUp: giveUp.signal });
  const observed = observeQueues({ currentPlanFile, queueDepths, listWorkers, oldestWaiting: waitingRequests.oldest });
  metrics.observe({
    ...observed,
    waiting: waitingRequests.count,
    bytesWaiting: queueBounds.bytesWaiting,
    bodyBytesHeld: http.body.budget.bytesHeld,
    issuerKeysAgeMs: issuerKeys.ageMs,
  });

  const opening = openAuthentication({ ...common, signIn, release, outboxLengthMax });
  const { authentication, suspensions, readCountersOf } = parts.use(opening);
  const requestsToEnd = parts.use(createRequestsToEnd({ redis, log }));
  let listener: Listener | undefined;
  parts.use(notePlanFiles({ planFile: opened.planFile, store, redis, log }));
  const describe = () => describeLoad({ ...counting, listener, waitingRequests, ...observed });
  const fleet = parts.use(await opened.follow(redis, describe, counting.fleetCounts));
  const app = createApp({
    log,
    store,
    redis,
    http,
    authentication,
    queue: {
      queues,
      queueTurns,
      queueBounds,
      waitingRequests,
      replyTo: inbox.address,
      suspensions,
      requestsToEnd,
      requestLookUp: createRequestLookUp({ redis, store }),
      keptAnswers: createKeptAnswers(config.keyPeppers),
      insertWithRoom: createInsertWithRoom({ store: store.batches }),
      affinityKeys: createAffinityKeys(config.keyPeppers[0]),
    },
    operators: {
      planFileStatus: opened.status,
      processes: fleet.processes,
      fleet: { ...fleet, ...observed },
      queueDepthMax: config.queue.depthMax,
      backendPauses: createBackendPauses(redis),
      hourSums: createHourSums({ store: store.usage }),
      readCountersOf,
    },
    pages: createPages({ ...common, issuerKeys }),
  });
  listener = await openListener({ config, app, metrics, log });
  metrics.observeConnections(listener.connections);
  state.becomeReady();
  log.info({ port: listener.port }, 'ready');

  await aborted(shutdown);
  await finish(listener, { config, giveUp, waitingRequests, log });
  await within(settleMs, settlements.ended());
}

type LoadSources = Pick<ReturnType<typeof observeQueues>, 'oldest'> & {
  listener: Listener | undefined;
  waitingRequests: WaitingRequests;
  fleetCounts: Pick<FleetCounts, 'raise'>;
};

/** What this ingress does now, as operators see it. */
function describeLoad({ listener, waitingRequests, fleetCounts, oldest }: LoadSources): IngressLoad {
  const waits = oldest();
  fleetCounts.raise(['longest', 'wait'], Math.max(0, ...waits.map(({ ageMs }) => ageMs)));
  return {
    ...{ kind: 'ingress', connections: listener?.connections() ?? 0, waiting: waitingRequests.count() },
    oldest: waits.flatMap(({ model, ageMs }) => (ageMs > 0 ? [{ model, ageMs }] : [])),
  };
}

type HttpDeps = Pick<HttpParts, 'metrics' | 'refusals' | 'fleetCounts' | 'tracing' | 'currentPlanFile'> & {
  config: IngressConfig;
  store: Store;
  giveUp: AbortSignal;
  log: Log;
};

function createHttpParts({ config, store, giveUp, log, ...deps }: HttpDeps): HttpParts {
  const { bodyBytesMax, links, webhooks } = config;
  return {
    ...deps,
    ...links,
    securityHeaders: securityHeaders(links.baseUrl),
    trustedProxyHops: config.trustedProxyHops,
    body: {
      bodyBytesMax,
      bodyMs,
      giveUp,
      budget: createBodyBudget({ bytesMax: config.bodyBudgetBytes }),
      refusedBodies: createRefusedBodies(),
      largeBodies: createLargeBodies({ bytesAtOnceMax: bodyBytesMax }),
    },
    uploadFile: createUploadFile({ store, giveUp, log }),
    copyLines: createCopyLines({ store, giveUp, log }),
    webhooks: {
      secrets: webhooks.secretKeys && createWebhookSecrets(webhooks.secretKeys),
      rules: { hostsPrivate: webhooks.hostsPrivate, resolve: createResolveHost() },
    },
  };
}

type OperationsDeps = {
  config: IngressConfig;
  opened: OpenedPlanFile;
  dashboard: Pick<QueueDashboard, 'pages'>;
  connections: Connections;
  signIn: SignIn;
  inbox: () => Inbox | undefined;
} & Pick<Parameters<typeof listenForOperations>[0], 'registry' | 'state' | 'log'>;

/** Starts the operations listener, with checks of Redis, the store and the identity provider. */
function openOperations({ config, opened, dashboard, connections, signIn, inbox, ...deps }: OperationsDeps) {
  const { redis, replyRedis, store } = connections;
  const showPlan = showPlanFile(opened.planFile);
  const checkWrites = createCheckWrites(redis);
  const identityProvider = atMostEvery(checkEveryMs, signIn.check);
  const nodeChecks = () => ({
    ...checkWritesOfNodes('redis', redis),
    ...(config.replyRedisUrl !== config.redisUrl && checkWritesOfNodes('replyRedis', replyRedis)),
  });
  return listenForOperations({
    ...{ ...config.operations, ...deps },
    afterScrape: createRemoveOldSeries({ registry: deps.registry, currentPlanFile: opened.planFile.current }),
    details: () => ({ planFile: opened.status() }),
    pages: (ctx, next) => dashboard.pages(ctx, () => showPlan(ctx, next)),
    required: {
      /** Without writes, no request is admitted. */
      redis: () => checkWrites(Object.keys(opened.planFile.current().models).map(queuePrefix)),
      /** Without an address for replies, every request would be refused. */
      async replyRedis() {
        if (!replyRedis.isCluster) await replyRedis.ping();
        const opened = inbox();
        if (opened !== undefined && opened.address() === undefined) throw new Error('no reply could be received');
      },
    },
    checks: () => ({ store: () => store.ping(), identityProvider, ...nodeChecks() }),
  });
}

type ListenerDeps = { config: IngressConfig; app: ReturnType<typeof createApp>; metrics: IngressMetrics; log: Log };

/** Starts the public listener. */
function openListener({ config, app, metrics, log }: ListenerDeps): Promise<Listener> {
  const { baseUrl, docsUrl } = config.links;
  return listen({
    ...config.listener,
    connections: { ...config.connections, onRefused: () => metrics.connectionsRefused.inc() },
    onRequest: app.callback(),
    onBrokenRequest: answerBrokenRequest({
      log,
      docsUrl,
      securityHeaders: securityHeaders(baseUrl),
      methods: methodsOf(routes),
    }),
  });
}

type FinishOptions = { config: IngressConfig; giveUp: AbortController; waitingRequests: WaitingRequests; log: Log };

/**
 * Serves requests while load balancers learn that this ingress is not ready, then waits for the requests in progress to end. Those that
 * have not ended within the grace period are refused (contract.md#pa1-stopping-an-ingress).
 */
async function finish(listener: Listener, { config, giveUp, waitingRequests, log }: FinishOptions): Promise<void> {
  const { shutdownDelayMs: delayMs, shutdownGraceMs: graceMs } = config;
  log.info({ delayMs }, 'shutting down: not ready any more, and requests are served for the delay');
  listener.drain();
  await sleep(delayMs);
  log.info({ waiting: waitingRequests.count() }, 'the listener closes: finishing the requests in progress');
  await listener.close({
    graceMs,
    giveUp() {
      const shuttingDown = new ApiError('SERVICE_UNAVAILABLE', 'The service is shutting down. Retry.');
      giveUp.abort(shuttingDown);
      waitingRequests.close(shuttingDown);
    },
  });
}
