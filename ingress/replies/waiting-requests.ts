import { ApiError, deadlineExceeded, unpackError, waitedTooLong } from '../../shared/errors.ts';
import type { Reply } from '../../shared/replies.ts';
import { followReply, notStarted, type Progress } from './follow-reply.ts';
import { createReplyBuffer, type ReplyBuffer, type ReplyEvent } from './reply-buffer.ts';

/** What one client waits for. */
export interface ExpectedReply {
  /** The next event, or throws the `ApiError` that the client is to see. */
  next(): Promise<ReplyEvent>;
  /** Nobody waits any longer: the job is cancelled, wherever it is. */
  abandon(): void;
}

export interface WaitingRequests {
  /** Registers a request before it is queued, so that no reply can come too early. */
  expect(request: { requestId: string; pool: string; queueMs: number; requestMs: number }): ExpectedReply;
  deliver(reply: Reply): void;
  /** Every request that waits now fails with this error and its job is cancelled. */
  failAll(error: ApiError): void;
  /** The same, and so does every one that comes from now on. */
  close(error: ApiError): void;
  count(): number;
}

/** Where a job can be reached: its worker's control stream once it has started, its pool's queue before. */
export type Whereabouts = { requestId: string; pool: string | undefined; control: string | undefined };

type Waiting = {
  requestId: string;
  pool: string;
  buffer: ReplyBuffer;
  progress: Progress;
  control: string | undefined;
  queueTimer: NodeJS.Timeout;
  deadlineTimer: NodeJS.Timeout;
};

/** A worker may start a job up to its last moment; its first word is given this long to arrive. */
const queueSlackMs = 1_000;

const clientGone = () => new ApiError('REQUEST_TIMEOUT', 'The client went away.');
/** What is left to say when a part of the answer is missing: text that went out cannot be taken back. */
export const replyLost = (delivered: boolean) =>
  delivered
    ? new ApiError('UPSTREAM_INTERRUPTED', 'The answer was interrupted.')
    : new ApiError('SERVICE_UNAVAILABLE', 'The answer was lost on its way. Retry.');

/** The requests of this ingress that wait for their reply. Its own timers end every wait, whatever else happens. */
export function createWaitingRequests({ cancel }: { cancel: (job: Whereabouts) => void }): WaitingRequests {
  const waiting = new Map<string, Waiting>();
  let closed: ApiError | undefined;

  function forget(request: Waiting): void {
    waiting.delete(request.requestId);
    clearTimeout(request.queueTimer);
    clearTimeout(request.deadlineTimer);
  }

  function giveUp(request: Waiting, error: ApiError): void {
    if (waiting.get(request.requestId) !== request) return;
    forget(request);
    request.buffer.fail(error);
    cancel(request);
  }

  function accept(request: Waiting, reply: Reply): void {
    switch (reply.kind) {
      case 'started':
        clearTimeout(request.queueTimer);
        request.control = reply.data.control;
        return;
      case 'chunk':
        if (!request.buffer.push({ kind: 'chunk', text: reply.data })) giveUp(request, replyLost(true));
        return;
      case 'end':
        forget(request);
        request.buffer.push({ kind: 'end', body: reply.data.body, usage: reply.data.usage });
        return;
      case 'error':
        forget(request);
        request.buffer.fail(unpackError(reply.data));
    }
  }

  function failAll(error: ApiError): void {
    for (const request of [...waiting.values()]) giveUp(request, error);
  }

  return {
    expect({ requestId, pool, queueMs, requestMs }) {
      if (closed !== undefined) throw closed;
      const buffer = createReplyBuffer();
      const request: Waiting = {
        requestId,
        pool,
        buffer,
        progress: notStarted,
        control: undefined,
        queueTimer: setTimeout(() => giveUp(request, waitedTooLong()), queueMs + queueSlackMs),
        deadlineTimer: setTimeout(() => giveUp(request, deadlineExceeded()), requestMs),
      };
      waiting.set(requestId, request);
      return { next: () => buffer.next(), abandon: () => giveUp(request, clientGone()) };
    },
    deliver(reply) {
      const request = waiting.get(reply.request);
      if (request === undefined) {
        // It was given up while nobody knew yet which worker had it.
        if (reply.kind === 'started')
          cancel({ requestId: reply.request, pool: undefined, control: reply.data.control });
        return;
      }
      const step = followReply(request.progress, reply);
      if (step.outcome === 'accept') {
        request.progress = step.progress;
        accept(request, reply);
      } else if (step.outcome !== 'ignore') {
        if (reply.kind === 'started') request.control = reply.data.control;
        giveUp(request, replyLost(request.progress.delivered));
      }
    },
    failAll,
    close(error) {
      closed = error;
      failAll(error);
    },
    count: () => waiting.size,
  };
}
