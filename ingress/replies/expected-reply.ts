import type { ApiError } from '../../shared/errors.ts';
import type { RunProgress } from '../../shared/jobs/replies.ts';
import type { HeldLease } from '../limits/settle-interrupted.ts';
import type { QueuePlace } from '../queue/queue-bounds.ts';
import type { ReplyEvent } from './reply-buffer.ts';

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
