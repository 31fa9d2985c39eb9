import { type ApiError, deadlineExceeded, replyLost, waitedTooLong } from '../../shared/errors.ts';
import type { TakenPieces } from '../../shared/jobs/control-messages.ts';
import { mayKeepAnswer } from '../../shared/jobs/idempotency.ts';
import { type Reply, type RunProgress, unpackError } from '../../shared/jobs/replies.ts';
import type { ReleaseAnswer } from '../../shared/limits/release.ts';
import type { AnswerBudget, HeldAnswer } from '../../shared/process/answer-budget.ts';
import { holderOf } from '../../shared/store/records/account.ts';
import type { DeliveredTokens, HeldLease } from '../limits/settle-interrupted.ts';
import type { QueuePlace } from '../queue/queue-bounds.ts';
import {
  createReplyBuffer,
  createTakenCount,
  type ReplyBuffer,
  type ReplyEvent,
  type TakenCount,
  type TextWriter,
} from './reply-buffer.ts';

/** Where a job is: before its start in the queue of its model, then at the control stream of its worker. */
export type JobLocation = { requestId: string; model: string | undefined; control: string | undefined };

/** The effects of a waiting request on other parts. */
export type WaitingEffects = {
  cancel: (job: JobLocation) => void;
  /** Reports to the worker of a request what its client has taken. */
  reportTaken: (control: string, taken: TakenPieces) => void;
  answers: Pick<AnswerBudget, 'hold'>;
  release: (lease: HeldLease) => Promise<ReleaseAnswer>;
  /** Ends a request whose worker died after text of it was delivered. `run` is the run that reports it. */
  settleInterrupted: (lease: HeldLease, delivered: DeliveredTokens) => void;
  /** No further reply to this request is expected. */
  onForgotten: (request: WaitingRequest) => void;
};

export type WaitingRequest = Pick<ExpectedRequest, 'lease' | 'model' | 'replyTo' | 'place' | 'onServed'> & {
  effects: WaitingEffects;
  /** By `performance.now()`. */
  queuedAt: number;
  onQueued: ExpectedRequest['onQueued'] | undefined;
  buffer: ReplyBuffer;
  held: HeldAnswer;
  taken: TakenCount;
  progress: Progress;
  control: string | undefined;
  tokensDelivered: number;
  /** The client receives nothing more. The request is kept until the last reply of its worker, or until none can arrive. */
  left: boolean;
  isForgotten: boolean;
  isDropped: boolean;
  ended: PromiseWithResolvers<void>;
  queueTimer: NodeJS.Timeout;
  deadlineTimer: NodeJS.Timeout;
};

/** A worker may start a job at the last moment; its first reply has this long to arrive. */
const queueSlackMs = 1_000;
/**
 * A worker ends a request at its deadline. If the ingress cancelled it at the same moment, the worker would take that for a client that
 * left, and charge for it. So its last reply has this long to arrive.
 */
const deadlineSlackMs = 1_000;
/** How long after the deadline a worker's last reply is still accepted. After that the lease expires. */
const lastReplyMs = 30_000;

export function createWaitingRequest(expected: ExpectedRequest, effects: WaitingEffects): WaitingRequest {
  const { lease, model, replyTo, place, onQueued, onServed, disconnect, queueMs, requestMs } = expected;
  const held = effects.answers.hold(holderOf({ account: lease.account, plan: lease.report.plan }));
  const taken = createTakenCount((bytes) => {
    if (request.control !== undefined) effects.reportTaken(request.control, { request: lease.requestId, bytes });
  });
  const onStalled = () => {
    letGo(request, replyLost(true));
    dropUnread(request);
    disconnect();
  };
  const request: WaitingRequest = {
    lease,
    model,
    replyTo,
    place,
    onQueued,
    effects,
    held,
    taken,
    ...(onServed && { onServed }),
    queuedAt: performance.now(),
    buffer: createReplyBuffer({ held, source: taken.source, onStalled }),
    progress: notStarted,
    control: undefined,
    tokensDelivered: 0,
    left: false,
    isForgotten: false,
    isDropped: false,
    ended: Promise.withResolvers(),
    queueTimer: setTimeout(() => void endQueueing(request), queueMs + queueSlackMs),
    deadlineTimer: setTimeout(() => endWaiting(request), requestMs + deadlineSlackMs),
  };
  return request;
}

/** The client receives this error, and then nothing more. The job is cancelled, unless its answer is kept for the next attempt. */
export function letGo(request: WaitingRequest, error: ApiError): void {
  if (!mayKeepAnswer(request.lease.claim)) leaveRequest(request, error);
  else if (isWaitedFor(request)) request.buffer.fail(error);
}

/**
 * The client receives this error, because it is not known whether the job is in the queue. It is taken back. If it has started nevertheless
 * and its answer is kept, it continues.
 */
export function failQueueing(request: WaitingRequest, error: ApiError): void {
  letGo(request, error);
  if (!request.left) void takeBack(request);
}

/** Its client is gone: what has arrived and comes later is dropped. */
export function dropUnread(request: WaitingRequest): void {
  request.isDropped = true;
  // Otherwise the worker of an answer that is kept would wait for them.
  for (const event of request.buffer.discard())
    if (event.kind === 'piece') request.taken.add(event.bytes.length, event.length);
  request.held.release();
}

/** The client receives this error, and then nothing more; the job is cancelled. */
export function leaveRequest(request: WaitingRequest, error: ApiError): void {
  if (!isWaitedFor(request)) return;
  request.left = true;
  request.buffer.fail(error);
  if (request.control !== undefined) cancelJob(request);
  else void takeBack(request);
}

export function isWaitedFor({ left, isForgotten }: WaitingRequest): boolean {
  return !left && !isForgotten;
}

/** Whether no worker has started it. */
export function isQueued(request: WaitingRequest): boolean {
  return !request.left && request.progress === notStarted;
}

/** Ends the wait: no later reply counts. */
export function forgetRequest(request: WaitingRequest): void {
  request.isForgotten = true;
  clearTimeout(request.queueTimer);
  clearTimeout(request.deadlineTimer);
  request.place.leave();
  request.held.arrived();
  request.effects.onForgotten(request);
  request.ended.resolve();
}

export function deliverReply(request: WaitingRequest, reply: Reply): void {
  request.place.leave();
  const queueWaitMs = reply.kind === 'started' ? reply.data.queueMs : reply.served?.queueWaitMs;
  reportQueued(request, { isTaken: true, queueMs: queueWaitMs });
  const step = followReply(request.progress, reply);
  if (step.outcome === 'accept') {
    request.progress = step.progress;
    if (queueWaitMs !== undefined) request.onServed?.({ queueWaitMs, ...reply.served });
    accept(request, reply);
  } else if (step.outcome === 'interrupted') {
    interrupt(request, reply);
  } else if (step.outcome === 'gap') {
    if (reply.kind === 'started') request.control = reply.data.control;
    letGo(request, replyLost(request.progress.delivered));
    if (reply.kind === 'end' || reply.kind === 'error') forgetRequest(request);
  }
}

function accept(request: WaitingRequest, reply: Reply): void {
  switch (reply.kind) {
    case 'started':
      clearTimeout(request.queueTimer);
      request.control = reply.data.control;
      if (request.left) cancelJob(request);
      return;
    case 'chunk':
      request.tokensDelivered = reply.tokens;
      if (!request.left && !request.buffer.push({ kind: 'chunk', text: reply.data }))
        leaveRequest(request, replyLost(true));
      return;
    case 'piece':
      takePiece(request, reply);
      return;
    case 'end':
      forgetRequest(request);
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

/** A piece for a client that is gone is dropped, and counts as taken: the answer may be kept, and its worker waits. */
function takePiece(request: WaitingRequest, { data, bytes: length }: Extract<Reply, { kind: 'piece' }>): void {
  const bytes = Buffer.from(data, 'latin1');
  if (request.left || request.isDropped) request.taken.add(bytes.length, length);
  else request.buffer.push({ kind: 'piece', bytes, length });
}

function fail(request: WaitingRequest, error: ApiError): void {
  forgetRequest(request);
  request.buffer.fail(error);
}

/** A worker died after it had sent text of its run. Another worker has the request, and must not answer it. */
function interrupt(request: WaitingRequest, reply: Reply): void {
  const promptTokens = reply.kind === 'interrupted' ? reply.data.promptTokens : undefined;
  const delivered = { run: reply.run, completionTokens: request.tokensDelivered, promptTokens };
  request.effects.settleInterrupted(request.lease, delivered);
  fail(request, replyLost(request.progress.delivered));
  if (reply.kind === 'started') cancelJob({ ...request, control: reply.data.control });
}

/** If the job has started in the meantime, continues to wait for its answer. */
async function endQueueing(request: WaitingRequest): Promise<void> {
  const released = await takeBack(request);
  // Its time to start is over, so no worker will start it any more.
  request.place.leave();
  if (released === 'released') {
    reportQueued(request, { isTaken: false });
    request.buffer.fail(waitedTooLong());
  }
  if (released === 'unknown' && request.control === undefined) leaveRequest(request, waitedTooLong());
  // Either its last reply is on its way, or its lease has expired and there will be none.
  if (released === 'ended') request.queueTimer = setTimeout(() => leaveRequest(request, waitedTooLong()), queueSlackMs);
}

function endWaiting(request: WaitingRequest): void {
  leaveRequest(request, deadlineExceeded());
  request.deadlineTimer = setTimeout(() => forgetRequest(request), lastReplyMs);
}

/** Once the lease is released, no worker can run the job. */
async function takeBack(request: WaitingRequest): Promise<ReleaseAnswer | 'unknown'> {
  const released = await request.effects.release(request.lease).catch(() => 'unknown' as const);
  if (released === 'released') {
    forgetRequest(request);
    cancelJob(request);
  }
  if (released !== 'unknown') request.place.leave();
  return released;
}

function cancelJob({ lease: { requestId }, model, control, effects }: WaitingRequest): void {
  effects.cancel({ requestId, model, control });
}

/** `queueMs` is unknown if the job was not started, or if the last reply came first. */
function reportQueued(
  request: WaitingRequest,
  { isTaken, queueMs }: { isTaken: boolean; queueMs?: number | undefined },
): void {
  request.onQueued?.({ ms: queueMs ?? Math.round(performance.now() - request.queuedAt), isTaken });
  request.onQueued = undefined;
}

/** A request that is about to be queued; all times in milliseconds. */
export type ExpectedRequest = {
  lease: HeldLease;
  model: string;
  /** The stream of this ingress in which the replies arrive. */
  replyTo: string;
  /** How long it waits for a worker, and for its complete answer. */
  queueMs: number;
  requestMs: number;
  place: QueuePlace;
  /** Closes the connection of a client that does not read its answer while others need the room. */
  disconnect: () => void;
  /**
   * Called once, before the first event: how long the request waited until a worker took it, or until its wait timed out
   * (contract.md#d10-queue-time).
   */
  onQueued: (waited: { ms: number; isTaken: boolean }) => void;
  /** Called each time that a worker says more of how it serves the request: first how long it waited. */
  onServed?: (known: Partial<RunProgress>) => void;
};

/** The reply that one client waits for. */
export interface ExpectedReply {
  /** Returns the next event, or throws the `ApiError` for the client. */
  next(): Promise<ReplyEvent>;
  /** While `next` waits, this writes short texts in its place. */
  writeTextWith(writer: TextWriter): void;
  /** Resolves when no further reply can arrive. */
  ended: Promise<void>;
  /** The client has read this many bytes of a body that has `length` bytes and comes in pieces. */
  taken(bytes: number, length: number): void;
  /** The client has disconnected: cancels the job, whether it is queued or running, unless its answer is kept. */
  abandon(): void;
  /** The job could not be queued, as far as is known: takes it back, and `next` throws this error. */
  failQueueing(error: ApiError): void;
  /** Cancels the job, and `next` throws this error. */
  fail(error: ApiError): void;
}

/** The progress of a reply: the run that is followed, its next sequence number, and whether text or a piece was delivered. */
export type Progress = { run: number; nextSequence: number; delivered: boolean };

export const notStarted: Progress = { run: 0, nextSequence: 0, delivered: false };

/**
 * What to do with a reply. `accept` it; `ignore` it (an older run, or a duplicate); `gap`: an earlier reply was lost; `interrupted`:
 * another worker has restarted the request although text of an earlier run was delivered, and texts of two runs must not be mixed.
 */
type Step = { outcome: 'accept'; progress: Progress } | { outcome: 'ignore' | 'gap' | 'interrupted' };

/**
 * Decides on a reply. Follows the highest run seen so far, in the order of its sequence numbers, each of them once
 * (contract.md#p3-order-and-gaps, contract.md#p4-highest-run).
 */
export function followReply(
  progress: Progress,
  { run, sequence, kind }: Pick<Reply, 'run' | 'sequence' | 'kind'>,
): Step {
  if (run < progress.run) return { outcome: 'ignore' };
  if (run > progress.run && progress.delivered) return { outcome: 'interrupted' };
  const expected = run > progress.run ? 0 : progress.nextSequence;
  if (sequence < expected) return { outcome: 'ignore' };
  if (sequence > expected) return { outcome: 'gap' };
  const delivered = progress.delivered || kind === 'chunk' || kind === 'piece';
  return { outcome: 'accept', progress: { run, nextSequence: sequence + 1, delivered } };
}
