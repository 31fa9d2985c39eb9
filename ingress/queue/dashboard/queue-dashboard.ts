import type Koa from 'koa';
import { ApiError, temporarilyUnavailable } from '../../../shared/errors.ts';
import type { ListWorkers } from '../../../shared/fleet/follow-fleet.ts';
import type { Log } from '../../../shared/process/log.ts';
import { createQueueBoard, type ShownQueue } from './queue-board.ts';
import { refuseForeignChanges } from './refuse-foreign-changes.ts';

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
  let board: Koa.Middleware | undefined;

  async function showPage(ctx: Koa.Context): Promise<void> {
    refuseForeignChanges(ctx);
    // If the dashboard is read-only, a method that could change something never reaches the board.
    if (!writable && ctx.method !== 'GET' && ctx.method !== 'HEAD') throw readOnly();
    if (board === undefined) throw temporarilyUnavailable();
    ctx.set(headers);
    try {
      await board(ctx, async () => {});
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
      board = createQueueBoard({ queues, listWorkers, writable, path });
    },
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
