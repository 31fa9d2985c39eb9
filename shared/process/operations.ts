import { type AddressInfo, isIP } from 'node:net';
import ipaddr from 'ipaddr.js';
import Koa from 'koa';
import { Gauge, type Registry } from 'prom-client';
import { within } from '../concurrency/shutdown.ts';
import { ApiError, errorBody, errorHeaders, errorStatus, toApiError } from '../errors.ts';
import type { Log } from './log.ts';
import { untilListening } from './start-error.ts';

/** `starting` and `stopping` processes take no new work; both answer 503 on `/readyz`. */
export type ProcessState = 'starting' | 'ready' | 'stopping';

/** Tracks the state of a process: `starting` until `becomeReady` is called, `stopping` from the first shutdown signal. */
export function followProcessState(shutdown: AbortSignal): { current: () => ProcessState; becomeReady: () => void } {
  let ready = false;
  return {
    current: () => (shutdown.aborted ? 'stopping' : ready ? 'ready' : 'starting'),
    becomeReady: () => {
      ready = true;
    },
  };
}

/** Checks whether a dependency of the process answers; throws if it does not. */
export type Check<Result = unknown> = () => Promise<Result>;

/** Returns the same check, run at most once per `ms`, no matter how many requests use it: health checks must not load the dependency. */
export function atMostEvery<Result>(ms: number, check: Check<Result>): Check<Result> {
  let latest: { at: number; result: Promise<Result> } | undefined;
  return function checkAgain() {
    if (latest === undefined || performance.now() - latest.at >= ms)
      latest = { at: performance.now(), result: check() };
    return latest.result;
  };
}

type OperationsOptions = {
  /** The address that the listener binds to. */
  host: string;
  port: number;
  /** Names and addresses that are accepted in `Host` besides its own. */
  hostsAllowed: readonly string[];
  registry: Registry;
  /** Called after each scrape of the metrics. `HEAD` is none. */
  afterScrape?: () => Promise<void>;
  state: () => ProcessState;
  /** The process cannot work without these: they decide readiness, together with the state of the process. */
  required: Readonly<Record<string, Check>>;
  /** Shown by name, and never the reason for a 503: if one is unavailable, not all processes may leave the load balancer at once. */
  checks: () => Readonly<Record<string, Check>>;
  /** Further fields of `/readyz`, besides the dependencies. They never replace them. */
  details?: () => Readonly<Record<string, unknown>>;
  /** Pages of this process only. Every other path is passed to `next`. */
  pages?: Koa.Middleware;
  log: Log;
};

type DependencyStatus = { state: 'ok' | 'degraded'; latencyMs: number };

const checkTimeoutMs = 1_000;

/**
 * Starts the operations listener: `/healthz`, `/readyz`, `/metrics` and the pages that `pages` adds under other names
 * (contract.md#a2-operations-listener).
 */
export async function listenForOperations(deps: OperationsOptions): Promise<AsyncDisposable & { port: number }> {
  const { pages = passOn } = deps;
  observeReadiness(deps.registry, deps.required);
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
  await untilListening(server, { name: 'OPS_PORT', host: deps.host, port: deps.port });
  return {
    port: (server.address() as AddressInfo).port, // a TCP server has such an address
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
      if (ctx.method === 'GET') await deps.afterScrape?.();
      return;
    default:
      throw new ApiError('NOT_FOUND', 'There is nothing at this path.');
  }
}

async function answerReadiness(
  ctx: Koa.Context,
  { state, required, checks, details }: OperationsOptions,
): Promise<void> {
  const named = Object.entries({ ...required, ...checks() });
  const statuses = await Promise.all(named.map(async ([name, check]) => [name, await measure(check)] as const));
  const dependencies = Object.fromEntries(statuses);
  const ready = state() === 'ready' && Object.keys(required).every((name) => dependencies[name]?.state === 'ok');
  ctx.status = ready ? 200 : 503;
  ctx.body = { ...details?.(), ready, state: state(), dependencies };
}

/** Registers a gauge of these checks. Each scrape runs each of them once, and waits for it as long as `/readyz` does. */
export function observeReadiness(registry: Registry, required: OperationsOptions['required']): void {
  new Gauge({
    name: 'svc_readiness_checks',
    help: 'Whether what the process cannot work without is available, by check as /readyz names it: 1 or 0',
    labelNames: ['check'],
    registers: [registry],
    async collect() {
      await Promise.all(
        Object.entries(required).map(async ([name, check]) => {
          const { state } = await measure(check);
          this.set({ check: name }, state === 'ok' ? 1 : 0);
        }),
      );
    },
  });
}

async function measure(check: Check): Promise<DependencyStatus> {
  const startedAt = performance.now();
  let answered = false;
  try {
    answered = await within(checkTimeoutMs, check());
  } catch {
    // The part that uses this dependency logs the reason.
  }
  return { state: answered ? 'ok' : 'degraded', latencyMs: Math.round(performance.now() - startedAt) };
}

/**
 * Refuses requests with a foreign `Host`. A browser sends requests for every page that is open in it. A page whose own name resolves to the
 * listener's address (DNS rebinding) could read the responses as its own. So a name must be `localhost`, the name that the listener binds
 * to, or an allowed one. Addresses cannot be rebound, and probes and Prometheus use the address of a pod; a listener on loopback accepts
 * only loopback addresses. A request without `Host` is not from a browser. Fails with `FORBIDDEN` (contract.md#a2-operations-listener).
 */
export function refuseForeignHosts({
  host,
  hostsAllowed,
}: Pick<OperationsOptions, 'host' | 'hostsAllowed'>): Koa.Middleware {
  const onLoopback = isLoopback(host);
  const known = new Set(['localhost', host, ...hostsAllowed].map((name) => name.toLowerCase()));

  function isOwn(name: string): boolean {
    if (name === '' || known.has(name)) return true;
    return isIP(name) !== 0 && (!onLoopback || isLoopback(name));
  }

  return function refuseForeignHosts(ctx, next) {
    if (!isOwn(bareName(ctx))) {
      throw new ApiError(
        'FORBIDDEN',
        'This host name is not allowed. The operator can allow it with OPS_HOSTS_ALLOWED.',
      );
    }
    return next();
  };
}

/**
 * Returns the host without its port, brackets and trailing dot. A header that cannot be parsed is returned unchanged, and matches no name.
 */
function bareName(ctx: Koa.Context): string {
  const given = ctx.get('host').toLowerCase();
  const [, bracketed, name] = /^(?:\[([^\]]*)\]|([^:]*))(?::\d*)?$/.exec(given) ?? [];
  return (bracketed ?? name ?? given).replace(/\.$/, '');
}

function isLoopback(host: string): boolean {
  return host === 'localhost' || (isIP(host) !== 0 && ipaddr.process(host).range() === 'loopback');
}
