import type { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ExecutionContext } from 'ava';
import Koa from 'koa';
import {
  type BodyBudget,
  createBodyBudget,
  createLargeBodies,
  createRefusedBodies,
  type LargeBodies,
  type RefusedBodies,
} from '../../ingress/listener/body-budget.ts';
import { listen } from '../../ingress/listener/listener.ts';
import type { IngressMetrics } from '../../ingress/metrics.ts';
import { answerBrokenRequest, answerErrors } from '../../ingress/middleware/answer-errors.ts';
import { readJsonBody } from '../../ingress/middleware/read-json-body.ts';
import { assignRequestId } from '../../ingress/middleware/request-head.ts';
import { type RequestState, type Stage, stateOf } from '../../ingress/request-state.ts';
import { ApiError } from '../../shared/errors.ts';
import { type Clock, systemClock } from '../../shared/process/answer-budget.ts';
import { recordedLog } from './recorded-log.ts';
import { unboundedConnections } from './unbounded-connections.ts';

const usualBytesMax = 10_000;

export { usualBytesMax as bodyBytesMax };

/** The real listener, with a route that reads a body and sends it back. */
export async function startBodyReader(
  t: ExecutionContext,
  {
    bodyMs = 60_000,
    bodyBytesMax = usualBytesMax,
    before,
    budgetBytes = 1_048_576,
    clock = systemClock,
    handle = echo,
    refusedBodies = createRefusedBodies(),
    largeBodies = createLargeBodies({ bytesAtOnceMax: bodyBytesMax }),
    lingerMs = 30_000,
    ...counted
  }: Options = {},
): Promise<{ port: number; giveUp: AbortController; refusals: () => number; bytesHeld: () => number }> {
  const giveUp = new AbortController();
  const budget = createBodyBudget({ bytesMax: budgetBytes, clock });
  let refusals = 0;
  const metrics = { bodyRefusals: { inc: () => void refusals++ } } as Pick<IngressMetrics, 'bodyRefusals'>;
  const { log } = recordedLog();
  const app = new Koa<RequestState>();
  app.use(assignRequestId);
  app.use(answerErrors({ log, docsUrl: '', lingerMs }));
  if (before !== undefined) app.use(before);
  app.use(
    readJsonBody({
      bodyBytesMax,
      bodyMs,
      giveUp: giveUp.signal,
      budget,
      refusedBodies,
      largeBodies,
      metrics,
      ...counted,
    }),
  );
  app.use(handle);
  app.on('error', () => {});
  const listener = await listen({
    connections: unboundedConnections,
    host: '127.0.0.1',
    port: 0,
    keepAliveMs: 65_000,
    onRequest: app.callback(),
    onBrokenRequest: answerBrokenRequest({ log, docsUrl: '', securityHeaders: {}, methods: [] }),
  });
  t.teardown(() =>
    listener.close({
      graceMs: 0,
      giveUp: () => giveUp.abort(new ApiError('SERVICE_UNAVAILABLE', 'The service is shutting down. Retry.')),
    }),
  );
  return { port: listener.port, giveUp, refusals: () => refusals, bytesHeld: budget.bytesHeld };
}

type Options = {
  bodyMs?: number;
  bodyBytesMax?: number;
  before?: Stage;
  handle?: Stage;
  budgetBytes?: number;
  clock?: Clock;
  budget?: Pick<BodyBudget, 'enter'>;
  refusedBodies?: RefusedBodies;
  largeBodies?: LargeBodies;
  /** How long a refused client may still send. Default: as long as a slow machine needs. */
  lingerMs?: number;
};

export const echo: Stage = async (ctx) => {
  ctx.body = stateOf(ctx, 'body').value;
};

export const head = (...headers: string[]) =>
  ['POST / HTTP/1.1', 'Host: x', 'Content-Type: application/json', ...headers, '', ''].join('\r\n');

export function write(socket: Socket, text: string): Promise<void> {
  return new Promise((resolve, reject) => socket.write(text, (error) => (error ? reject(error) : resolve())));
}

/** As before most routes: the body has arrived before it is read. */
export const later: Stage = async (_ctx, next) => {
  await sleep(20);
  await next();
};

/** Keeps sending a little at a time until the connection ends. */
export async function trickle(socket: Socket, bytes: string): Promise<void> {
  while (!socket.destroyed) {
    socket.write(bytes);
    await sleep(20);
  }
}
