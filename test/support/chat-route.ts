import { Readable } from 'node:stream';
import type { ExecutionContext } from 'ava';
import Koa from 'koa';
import { answerErrors } from '../../ingress/middleware/answer-errors.ts';
import { cutSlowReaders } from '../../ingress/middleware/cut-slow-readers.ts';
import { createQueueTurns } from '../../ingress/queue/queue-turns.ts';
import { answerCall } from '../../ingress/replies/answer-call.ts';
import type { JobLocation } from '../../ingress/replies/waiting-request.ts';
import { createWaitingRequests } from '../../ingress/replies/waiting-requests.ts';
import type { RequestState } from '../../ingress/request-state.ts';
import type { HeldClaim } from '../../shared/jobs/idempotency.ts';
import type { Reply, ReplyContent } from '../../shared/jobs/replies.ts';
import { lostReport } from '../../shared/jobs/usage-outbox.ts';
import { parsePlanFile } from '../../shared/plan-file/plan-file.ts';
import { createAnswerBudget } from '../../shared/process/answer-budget.ts';
import { fakeClock } from './fake-clock.ts';
import { planText } from './plan-text.ts';
import { readChat } from './read-chat.ts';
import { recordedLog } from './recorded-log.ts';
import { serveApp } from './serve-app.ts';

type Wishes = {
  heldBackMs?: number;
  clientStuckMs?: number;
  add?: () => Promise<void>;
  claim?: HeldClaim;
  answerBytesMax?: number;
};

/** The route of chat completions behind a real HTTP server. Requests are admitted as they arrive, and the test acts as the worker. */
export async function startChatRoute(
  t: ExecutionContext,
  { add = async () => {}, clientStuckMs, claim, answerBytesMax = 100_663_296, ...waits }: Wishes = {},
) {
  const parsed = parsePlanFile(planText());
  if ('issues' in parsed) throw new Error('the plan file of the tests is wrong');
  const { planFile } = parsed;
  const cancelled: JobLocation[] = [];
  const released: string[] = [];
  const taken: number[] = [];
  const clock = fakeClock();
  const answers = createAnswerBudget({ bytesMax: answerBytesMax, clock });
  const waitingRequests = createWaitingRequests({
    cancel: (job) => cancelled.push(job),
    async release({ requestId }) {
      released.push(requestId);
      return 'released';
    },
    settleInterrupted: () => {},
    reportTaken: (_, { bytes }) => taken.push(bytes),
    answers,
  });
  const queued: string[] = [];
  const watchers = new Set<() => void>();
  const queues = {
    async add({ requestId }: { requestId: string }) {
      await add();
      queued.push(requestId);
      for (const look of watchers) look();
    },
    remove: async () => {},
    depth: async () => 0,
    depths: async () => [],
    async [Symbol.asyncDispose]() {},
  };
  let places = 0;
  let requests = 0;
  const running = new Set<() => void>();
  const suspensions = {
    follow(_caller: object, onSuspended: () => void) {
      running.add(onSuspended);
      return () => running.delete(onSuspended);
    },
  };

  const endable = new Set<{ id: string; onEnded: () => void }>();
  const requestsToEnd = {
    follow(id: string, onEnded: () => void) {
      const listener = { id, onEnded };
      endable.add(listener);
      return () => endable.delete(listener);
    },
  };

  const app = new Koa<RequestState>();
  if (clientStuckMs !== undefined) app.use(cutSlowReaders({ stuckMs: clientStuckMs }));
  app.use(answerErrors({ log: recordedLog().log, docsUrl: '' }));
  app.use(async function admit(ctx, next) {
    ctx.state.planFile = planFile;
    const text = (await Readable.from(ctx.req).toArray()).join('');
    const requestId = `req_${++requests}`;
    places += 1;
    let left = false;
    let isTakenOver = false;
    const place = {
      latestTurn: { turn: 0 },
      queued() {},
      leave() {
        if (!left) places -= 1;
        left = true;
      },
    };
    const call = readChat({ value: JSON.parse(text), text }, planFile.models);
    const caller = { account: 'user:alice', keyId: 'key_1', plan: 'free', suspended: false, version: 1 };
    Object.assign(ctx.state, {
      requestId,
      caller: { ...caller, overageEnabled: false },
      call,
      inFlight: 1,
      place: {
        takeOver() {
          isTakenOver = true;
          return place;
        },
      },
    });
    const report = lostReport({ ...call, keyId: 'key_1', plan: 'free', batch: null });
    const admission = { admittedAt: 0, startBy: 30_000, deadline: 600_000, overage: false };
    const { promptTokens } = call.cost;
    ctx.state.lease = { account: caller.account, requestId, report, promptTokens, admission, ...(claim && { claim }) };
    try {
      await next();
    } finally {
      if (!isTakenOver) place.leave();
    }
  });
  app.use((ctx) =>
    answerCall(ctx, {
      queues,
      queueTurns: createQueueTurns(),
      waitingRequests,
      suspensions,
      requestsToEnd,
      replyTo: () => 'svc:replies:1',
      clock,
      ...waits,
    }),
  );
  app.on('error', () => {});
  const { server, port, url, ...served } = await serveApp(app);
  const firstClosed = Promise.withResolvers<void>();
  server.on('connection', (socket) => socket.once('close', () => firstClosed.resolve()));
  t.teardown(() => {
    served[Symbol.dispose]();
    waitingRequests.close(new Error('over') as never);
  });

  return {
    port,
    cancelled,
    released,
    /** What clients have taken, as reported to the worker. */
    taken,
    answers,
    clock,
    /** Resolves when the server has closed a connection. */
    untilClosed: () => firstClosed.promise,
    places: () => places,
    /** Requests that would end if their account were suspended. */
    followed: () => running.size,
    /** Requests that an operator could end. */
    endable: () => [...endable].filter(({ id }) => id.startsWith('req_')).length,
    suspend(): void {
      for (const onSuspended of running) onSuspended();
    },
    /** Ends the request with this id, or all of the key with this id. */
    end(id: string): void {
      for (const each of endable) if (each.id === id) each.onEnded();
    },
    post: (stream: boolean, signal?: AbortSignal) =>
      fetch(`${url}/v1/chat/completions`, {
        method: 'POST',
        body: requestText(stream),
        ...(signal !== undefined && { signal }),
      }),
    /** The id of the nth queued request, as soon as it is queued. */
    queued: (nth = 1) =>
      new Promise<string>((resolve) => {
        const look = () => {
          const request = queued[nth - 1];
          if (request !== undefined) resolve(request);
        };
        watchers.add(look);
        look();
      }),
    say(request: string, contents: readonly ReplyContent[], from = 0): void {
      for (const [index, content] of contents.entries())
        waitingRequests.deliver({ request, run: 1, sequence: from + index, ...content } as Reply); // an envelope and a content
    },
  };
}

export function requestText(stream: boolean): string {
  return JSON.stringify({ model: 'small-chat', stream, messages: [{ role: 'user', content: 'Hello' }] });
}
