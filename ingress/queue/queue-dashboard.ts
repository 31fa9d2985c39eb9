import type { Queue } from 'bullmq';
import type Koa from 'koa';
import { ApiError, temporarilyUnavailable } from '../../shared/errors.ts';
import type { ListWorkers } from '../../shared/fleet/follow-fleet.ts';
import { allQueues, openQueue } from '../../shared/jobs/queues.ts';
import type { Log } from '../../shared/process/log.ts';
import type { Redis } from '../../shared/redis/connections.ts';
import type { ShownQueue } from './queue-board.ts';

export interface QueueDashboard {
  /** Serves everything below `/queues` on the operations listener. */
  pages: Koa.Middleware;
  /**
   * Sets the queues to show. Before that every page is `SERVICE_UNAVAILABLE`, because queues can be opened only when Redis is available.
   */
  show(queues: readonly ShownQueue[], listWorkers: ListWorkers): void;
}

const path = '/queues';

const headers = {
  // It needs nothing from other origins, and no page may frame it.
  'content-security-policy':
    "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; form-action 'none'; frame-ancestors 'none'",
  'referrer-policy': 'no-referrer',
  'cache-control': 'no-store',
};

/**
 * Shows operators the jobs of every model, by bull-board. It can change them only if it is `writable`. Throws its errors as
 * `ApiError`.
 */
export function createQueueDashboard({ writable, log }: { writable: boolean; log: Log }): QueueDashboard {
  let board: (() => Promise<Koa.Middleware>) | undefined;

  async function showPage(ctx: Koa.Context): Promise<void> {
    refuseForeignChanges(ctx);
    // If the dashboard is read-only, a method that could change something never reaches the board.
    if (!writable && ctx.method !== 'GET' && ctx.method !== 'HEAD') throw readOnly();
    if (board === undefined) throw temporarilyUnavailable();
    ctx.set(headers);
    try {
      const show = await board();
      await show(ctx, async () => {});
      if (typeof ctx.body === 'string') ctx.body = withoutOtherHosts(ctx.body);
    } catch (error) {
      ctx.remove('content-type');
      throw failure(error);
    }
    if (ctx.status >= 400) throw refusal(ctx.status);
  }

  function failure(error: unknown): ApiError {
    const { status } = error as { status?: unknown }; // the thrown value can have any shape
    if (typeof status === 'number' && status < 500) return refusal(status);
    log.warn({ err: error }, 'the queue dashboard failed');
    return temporarilyUnavailable(error);
  }

  return {
    pages: (ctx, next) => (ctx.path === path || ctx.path.startsWith(`${path}/`) ? showPage(ctx) : next()),
    show(queues, listWorkers) {
      board = onRequest(async () => {
        const { createQueueBoard } = await import('./queue-board.ts');
        return createQueueBoard({ queues, listWorkers, writable, path });
      });
    },
  };
}

/** Creates a board for its first page: few ingresses ever show one, and loading the library is a tenth of a start. */
function onRequest(create: () => Promise<Koa.Middleware>): () => Promise<Koa.Middleware> {
  let created: Promise<Koa.Middleware> | undefined;
  return () => {
    created ??= create().catch((error: unknown) => {
      created = undefined;
      throw error;
    });
    return created;
  };
}

/** The page of the library asks another host for fonts. Without them it uses those of the browser. */
function withoutOtherHosts(html: string): string {
  return html.replaceAll(/<link\b[^>]*\bhref="https?:[^>]*>/g, '');
}

function readOnly(): ApiError {
  return new ApiError('METHOD_NOT_ALLOWED', 'The queues are read-only.', {
    headers: { Allow: 'GET, HEAD' },
  });
}

/** Converts a refusal of the board to our format. */
function refusal(status: number): ApiError {
  if (status === 404) return new ApiError('NOT_FOUND', 'There is nothing at this path.');
  if (status === 403) return new ApiError('FORBIDDEN', 'This action is not allowed here.');
  if (status === 405) return new ApiError('METHOD_NOT_ALLOWED', 'This path does not support this method.');
  if (status < 500) return new ApiError('VALIDATION_ERROR', 'request: the dashboard does not support it');
  return temporarilyUnavailable();
}

/** The queues that the dashboard shows. */
export function createShownQueues({ connection, log }: { connection: Redis; log: Log }) {
  let opened = new Map<string, Queue>();

  function close(queue: Queue): Promise<void> {
    return queue.close().catch((error: unknown) => log.debug({ err: error }, 'a queue was not closed'));
  }

  return {
    /** Returns the queues of these models. Opens those that are new, and closes those of other models. */
    ofModels(models: Parameters<typeof allQueues>[0]): ShownQueue[] {
      const earlier = opened;
      const shown = allQueues(models).map(({ pool, ...id }) => ({
        pool,
        queue: earlier.get(id.name) ?? openQueue(id, { connection, log }),
      }));
      opened = new Map(shown.map(({ queue }) => [queue.name, queue]));
      for (const [name, queue] of earlier) if (!opened.has(name)) void close(queue);
      return shown;
    },
    async [Symbol.asyncDispose]() {
      await Promise.all([...opened.values()].map(close));
    },
  };
}

/**
 * Refuses a change that a page of another origin requests, with `FORBIDDEN`. The operations listener has no authentication, and a browser
 * on the operator's machine sends the requests of any open page. Such a page cannot read the responses of the listener, and must not
 * change anything.
 */
function refuseForeignChanges(ctx: Koa.Context): void {
  if (ctx.method !== 'GET' && ctx.method !== 'HEAD' && isFromElsewhere(ctx)) {
    throw new ApiError('FORBIDDEN', 'A page of another origin may not change anything here.');
  }
}

/**
 * Browsers send `Sec-Fetch-Site`; older ones send an `Origin` that differs from the host. A request with neither is not from a
 * browser (the rule of Go's net/http `CrossOriginProtection`).
 */
function isFromElsewhere(ctx: Koa.Context): boolean {
  const site = ctx.get('sec-fetch-site');
  if (site !== '') return site !== 'same-origin' && site !== 'none';
  const origin = ctx.get('origin');
  return origin !== '' && URL.parse(origin)?.host !== ctx.host;
}
