import type Koa from 'koa';
import { ApiError, temporarilyUnavailable } from '../../../shared/errors.ts';
import type { ListWorkers } from '../../../shared/jobs/list-workers.ts';
import type { Log } from '../../../shared/process/log.ts';
import { createQueueBoard, type ShownQueue } from './queue-board.ts';
import { refuseForeignChanges } from './refuse-foreign-changes.ts';

export interface QueueDashboard {
  /** Everything below `/queues`, for the operations listener. */
  pages: Koa.Middleware;
  /** Until then it answers `SERVICE_UNAVAILABLE`: queues can be opened only once Redis is there. */
  show(queues: readonly ShownQueue[], listWorkers: ListWorkers): void;
}

const path = '/queues';

const headers = {
  // It needs nothing from elsewhere, not even the fonts it asks for, and is no part of anybody's page.
  'content-security-policy':
    "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; form-action 'none'; frame-ancestors 'none'",
  'referrer-policy': 'no-referrer',
  'cache-control': 'no-store',
};

/**
 * What waits for every model, for operators, as bull-board shows it; it can change something only where it is `writable`. Its
 * errors are thrown as `ApiError`.
 */
export function createQueueDashboard({ writable, log }: { writable: boolean; log: Log }): QueueDashboard {
  let board: Koa.Middleware | undefined;

  async function showPage(ctx: Koa.Context): Promise<void> {
    refuseForeignChanges(ctx);
    // Whatever the board itself makes of a method, without leave to change anything none that could ever reaches it.
    if (!writable && ctx.method !== 'GET' && ctx.method !== 'HEAD') throw readOnly();
    if (board === undefined) throw temporarilyUnavailable();
    ctx.set(headers);
    try {
      await board(ctx, async () => {});
    } catch (error) {
      ctx.remove('content-type');
      throw failure(error);
    }
    if (ctx.status >= 400) throw refusal(ctx.status);
  }

  function failure(error: unknown): ApiError {
    const { status } = error as { status?: unknown }; // read from whatever was thrown; another shape has none
    if (typeof status === 'number' && status < 500) return refusal(status);
    log.warn({ err: error }, 'the queue dashboard could not be answered');
    return temporarilyUnavailable(error);
  }

  return {
    pages: (ctx, next) => (ctx.path === path || ctx.path.startsWith(`${path}/`) ? showPage(ctx) : next()),
    show(queues, listWorkers) {
      board = createQueueBoard({ queues, listWorkers, writable, path });
    },
  };
}

function readOnly(): ApiError {
  return new ApiError('METHOD_NOT_ALLOWED', 'The queues are shown and cannot be changed.', {
    headers: { Allow: 'GET, HEAD' },
  });
}

/** What the board answers by itself, in our words. */
function refusal(status: number): ApiError {
  if (status === 404) return new ApiError('NOT_FOUND', 'There is nothing at this path.');
  if (status === 403) return new ApiError('FORBIDDEN', 'This is not done here.');
  if (status === 405) return new ApiError('METHOD_NOT_ALLOWED', 'This path does not take this method.');
  if (status < 500) return new ApiError('VALIDATION_ERROR', 'request: not one that the dashboard can carry out');
  return temporarilyUnavailable();
}
