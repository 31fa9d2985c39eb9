import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import Koa from 'koa';
import type { Registry } from 'prom-client';
import { ApiError, errorBody, errorHeaders, errorStatus, toApiError } from '../errors.ts';
import type { Log } from './log.ts';
import { refuseForeignHosts } from './refuse-foreign-hosts.ts';
import { within } from './shutdown.ts';

/** `starting` and `stopping` processes take no new work; both answer 503 on `/readyz`. */
export type ProcessState = 'starting' | 'ready' | 'stopping';

/** Where a process stands: `starting` until it says that it is ready, `stopping` from the first signal to end. */
export function followProcessState(shutdown: AbortSignal): { current: () => ProcessState; becomeReady: () => void } {
  let ready = false;
  return {
    current: () => (shutdown.aborted ? 'stopping' : ready ? 'ready' : 'starting'),
    becomeReady: () => {
      ready = true;
    },
  };
}

/** Asks a part that the process leans on whether it answers; throws when it does not. */
export type Check = () => Promise<unknown>;

/** The same check, made at most so often, however many look: what it asks is not ours to burden. */
export function atMostEvery(ms: number, check: Check): Check {
  let latest: { at: number; result: Promise<unknown> } | undefined;
  return function checkAgain() {
    if (latest === undefined || performance.now() - latest.at >= ms)
      latest = { at: performance.now(), result: check() };
    return latest.result;
  };
}

type OperationsOptions = {
  host: string;
  port: number;
  /** Names, and addresses, that it is answered under besides its own (refuse-foreign-hosts.ts). */
  hostsAllowed: readonly string[];
  registry: Registry;
  state: () => ProcessState;
  /** Without these there is no work: they decide readiness along with the state of the process. */
  required: Readonly<Record<string, Check>>;
  /** Shown by name, and never the reason for a 503: their absence must not take every process out at once. */
  checks: Readonly<Record<string, Check>>;
  /** What else `/readyz` says, beside the dependencies and never in their place. */
  details?: () => Readonly<Record<string, unknown>>;
  /** Pages of this process's own: whatever is none of them goes on to `next`. */
  pages?: Koa.Middleware;
  log: Log;
};

type DependencyStatus = { state: 'ok' | 'degraded'; latencyMs: number };

const checkTimeoutMs = 1_000;

/** The operations listener: `/healthz`, `/readyz`, `/metrics` and what `pages` adds, for no page of another name. */
export async function listenForOperations(deps: OperationsOptions): Promise<AsyncDisposable & { port: number }> {
  const { pages = passOn } = deps;
  const refuseHosts = refuseForeignHosts(deps);
  const app = new Koa();
  app.on('error', (error) => deps.log.debug({ err: error }, 'a connection of the operations listener ended early'));
  app.use(async function answer(ctx) {
    ctx.set('x-content-type-options', 'nosniff');
    try {
      await refuseHosts(ctx, () => pages(ctx, () => route(ctx, deps)));
    } catch (thrown) {
      const error = toApiError(thrown);
      if (error.code === 'INTERNAL_ERROR') deps.log.error({ err: error.cause }, 'the operations listener failed');
      ctx.status = errorStatus(error.code);
      ctx.set(errorHeaders(error));
      ctx.body = errorBody(error, '');
    }
  });
  const server = app.listen(deps.port, deps.host);
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port, // a TCP server's address
    async [Symbol.asyncDispose]() {
      server.close();
      server.closeAllConnections();
    },
  };
}

const passOn: Koa.Middleware = (_ctx, next) => next();

async function route(ctx: Koa.Context, deps: OperationsOptions): Promise<void> {
  if (ctx.method !== 'GET' && ctx.method !== 'HEAD') {
    throw new ApiError('METHOD_NOT_ALLOWED', 'This path takes GET, HEAD.', { headers: { Allow: 'GET, HEAD' } });
  }
  switch (ctx.path) {
    case '/healthz':
      ctx.body = { status: 'ok' };
      return;
    case '/readyz':
      await answerReadiness(ctx, deps);
      return;
    case '/metrics':
      ctx.type = deps.registry.contentType;
      ctx.body = await deps.registry.metrics();
      return;
    default:
      throw new ApiError('NOT_FOUND', 'There is nothing at this path.');
  }
}

async function answerReadiness(
  ctx: Koa.Context,
  { state, required, checks, details }: OperationsOptions,
): Promise<void> {
  const named = Object.entries({ ...required, ...checks });
  const statuses = await Promise.all(named.map(async ([name, check]) => [name, await measure(check)] as const));
  const dependencies = Object.fromEntries(statuses);
  const ready = state() === 'ready' && Object.keys(required).every((name) => dependencies[name]?.state === 'ok');
  ctx.status = ready ? 200 : 503;
  ctx.body = { ...details?.(), ready, state: state(), dependencies };
}

async function measure(check: Check): Promise<DependencyStatus> {
  const startedAt = performance.now();
  let answered = false;
  try {
    answered = await within(checkTimeoutMs, check());
  } catch {
    // Why is in the log of whoever leans on this part.
  }
  return { state: answered ? 'ok' : 'degraded', latencyMs: Math.round(performance.now() - startedAt) };
}
