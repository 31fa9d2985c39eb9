import {
  type ApiError,
  clientGone,
  deadlineExceeded,
  replyLost,
  unpackError,
  waitedTooLong,
} from '../../shared/errors.ts';
import type { Reply } from '../../shared/jobs/replies.ts';
import type { Released } from '../../shared/limits/release.ts';
import type { Delivered, HeldLease } from '../limits/settle-interrupted.ts';
import type { QueuePlace } from '../queue/queue-bounds.ts';
import type { ExpectedReply, ExpectedRequest } from './expected-reply.ts';
import { followReply, notStarted, type Progress } from './follow-reply.ts';
import { createReplyBuffer, type ReplyBuffer } from './reply-buffer.ts';

export interface WaitingRequests {
  /**
   * Registers a request before it is queued, so that no reply can come too early. Its place is left at the first word of a
   * worker, and when none can come any more.
   */
  expect(request: ExpectedRequest): ExpectedReply;
  deliver(reply: Reply): void;
  /** Every request that waits now fails with this error and its job is called off. */
  failAll(error: ApiError): void;
  /** The same, and so does every one that comes from now on. */
  close(error: ApiError): void;
  /** Those whose client waits. */
  count(): number;
  /** How long the oldest request of each model waits that no worker has started, in milliseconds. */
  oldest(): Map<string, number>;
}

/** Where a job can be reached: its worker's control stream once it has started, its model's queue before. */
export type Whereabouts = { requestId: string; model: string | undefined; control: string | undefined };

type Waiting = {
  lease: HeldLease;
  model: string;
  /** By `performance.now()`. */
  queuedAt: number;
  place: QueuePlace;
  onQueued: ExpectedRequest['onQueued'] | undefined;
  buffer: ReplyBuffer;
  progress: Progress;
  control: string | undefined;
  tokensDelivered: number;
  /** Its client hears nothing more; it is kept until its worker's last word, or for as long as that may take. */
  left: boolean;
  queueTimer: NodeJS.Timeout;
  deadlineTimer: NodeJS.Timeout;
};

/** A worker may start a job up to its last moment; its first word is given this long to arrive. */
const queueSlackMs = 1_000;
/**
 * A worker ends a request at its deadline by itself. Called off in the same moment, it would be told that the client left,
 * and charge for that: its last word is given this long to arrive.
 */
const deadlineSlackMs = 1_000;
/** What a worker may still say after the deadline; from then on its lease ends by itself. */
const lastWordMs = 30_000;

/** The requests of this ingress that wait for their reply. Its own timers end every wait, whatever else happens. */
export function createWaitingRequests({
  cancel,
  release,
  settleInterrupted,
}: {
  cancel: (job: Whereabouts) => void;
  release: (request: { account: string; requestId: string }) => Promise<Released>;
  /** Ends a request whose worker died after text of it was delivered: `run` is the one that says so. */
  settleInterrupted: (lease: HeldLease, delivered: Delivered) => void;
}): WaitingRequests {
  const waiting = new Map<string, Waiting>();
  let closed: ApiError | undefined;

  function forget(request: Waiting): void {
    if (waiting.get(request.lease.requestId) === request) waiting.delete(request.lease.requestId);
    clearTimeout(request.queueTimer);
    clearTimeout(request.deadlineTimer);
    request.place.leave();
  }

  function cancelAt({ lease: { requestId }, model, control }: Waiting): void {
    cancel({ requestId, model, control });
  }

  /** Once it is released no worker can run it any more. */
  async function takeBack(request: Waiting): Promise<Released | 'unknown'> {
    const released = await release(request.lease).catch(() => 'unknown' as const);
    if (released === 'released') {
      forget(request);
      cancelAt(request);
    }
    if (released !== 'unknown') request.place.leave();
    return released;
  }

  function isWaitedFor(request: Waiting): boolean {
    return !request.left && waiting.get(request.lease.requestId) === request;
  }

  /** The client hears this, and then nothing more. */
  function leave(request: Waiting, error: ApiError): void {
    if (!isWaitedFor(request)) return;
    request.left = true;
    request.buffer.fail(error);
    if (request.control !== undefined) cancelAt(request);
    else void takeBack(request);
  }

  function tellQueued(
    request: Waiting,
    { isTaken, queueMs }: { isTaken: boolean; queueMs?: number | undefined },
  ): void {
    request.onQueued?.({ ms: queueMs ?? Math.round(performance.now() - request.queuedAt), isTaken });
    request.onQueued = undefined;
  }

  /** One that has started all the same is waited for. */
  async function endQueueing(request: Waiting): Promise<void> {
    const released = await takeBack(request);
    // Its time to start is over: whatever is known of it, no worker will begin with it now.
    request.place.leave();
    if (released === 'released') {
      tellQueued(request, { isTaken: false });
      request.buffer.fail(waitedTooLong());
    }
    if (released === 'unknown' && request.control === undefined) leave(request, waitedTooLong());
    // Its last word is on its way, or there is none: its lease has ended by itself.
    if (released === 'ended') request.queueTimer = setTimeout(() => leave(request, waitedTooLong()), queueSlackMs);
  }

  function endWaiting(request: Waiting): void {
    leave(request, deadlineExceeded());
    request.deadlineTimer = setTimeout(() => forget(request), lastWordMs);
  }

  function accept(request: Waiting, reply: Reply): void {
    switch (reply.kind) {
      case 'started':
        clearTimeout(request.queueTimer);
        request.control = reply.data.control;
        if (request.left) cancelAt(request);
        return;
      case 'chunk':
        request.tokensDelivered = reply.tokens;
        if (!request.left && !request.buffer.push({ kind: 'chunk', text: reply.data })) leave(request, replyLost(true));
        return;
      case 'end':
        forget(request);
        request.buffer.push({ kind: 'end', body: reply.data.body, usage: reply.data.usage });
        return;
      case 'error':
        fail(request, unpackError(reply.data));
        return;
      case 'interrupted':
        // Text of an earlier run was sent, and none of it has arrived.
        interrupt(request, reply);
    }
  }

  function fail(request: Waiting, error: ApiError): void {
    forget(request);
    request.buffer.fail(error);
  }

  /** A worker must have died after text of its run was sent: another has taken the request over, and may not answer it. */
  function interrupt(request: Waiting, reply: Reply): void {
    const promptTokens = reply.kind === 'interrupted' ? reply.data.promptTokens : undefined;
    settleInterrupted(request.lease, { run: reply.run, tokens: request.tokensDelivered, promptTokens });
    fail(request, replyLost(request.progress.delivered));
    if (reply.kind === 'started') cancelAt({ ...request, control: reply.data.control });
  }

  function failAll(error: ApiError): void {
    for (const request of [...waiting.values()]) {
      leave(request, error);
      forget(request);
    }
  }

  return {
    expect({ lease, model, queueMs, requestMs, place, onQueued }) {
      if (closed !== undefined) {
        place.leave();
        release(lease).catch(() => {});
        throw closed;
      }
      const buffer = createReplyBuffer();
      const request: Waiting = {
        lease,
        model,
        queuedAt: performance.now(),
        place,
        onQueued,
        buffer,
        progress: notStarted,
        control: undefined,
        tokensDelivered: 0,
        left: false,
        queueTimer: setTimeout(() => void endQueueing(request), queueMs + queueSlackMs),
        deadlineTimer: setTimeout(() => endWaiting(request), requestMs + deadlineSlackMs),
      };
      waiting.set(lease.requestId, request);
      return {
        next: () => buffer.next(),
        abandon() {
          // Nearly always its end was read before, and then an error would be made for nobody.
          if (isWaitedFor(request)) leave(request, clientGone());
        },
        fail: (error) => leave(request, error),
      };
    },
    deliver(reply) {
      const request = waiting.get(reply.request);
      if (request === undefined) {
        // It was given up while nobody knew yet which worker had it.
        if (reply.kind === 'started')
          cancel({ requestId: reply.request, model: undefined, control: reply.data.control });
        return;
      }
      request.place.leave();
      tellQueued(request, { isTaken: true, queueMs: reply.kind === 'started' ? reply.data.queueMs : undefined });
      const step = followReply(request.progress, reply);
      if (step.outcome === 'accept') {
        request.progress = step.progress;
        accept(request, reply);
      } else if (step.outcome === 'interrupted') {
        interrupt(request, reply);
      } else if (step.outcome === 'gap') {
        if (reply.kind === 'started') request.control = reply.data.control;
        leave(request, replyLost(request.progress.delivered));
        if (reply.kind === 'end' || reply.kind === 'error') forget(request);
      }
    },
    failAll,
    close(error) {
      closed = error;
      failAll(error);
    },
    count: () => [...waiting.values()].filter(({ left }) => !left).length,
    oldest() {
      const queued = [...waiting.values()].filter(({ left, progress }) => !left && progress === notStarted);
      const ages = new Map<string, number>();
      const now = performance.now();
      for (const { model, queuedAt } of queued) ages.set(model, Math.max(ages.get(model) ?? 0, now - queuedAt));
      return ages;
    },
  };
}
