import type { ApiError } from '../../shared/errors.ts';
import type { HeldLease } from '../limits/settle-interrupted.ts';
import type { QueuePlace } from '../queue/queue-bounds.ts';
import type { ReplyEvent } from './reply-buffer.ts';

/** A request that is about to be queued; all times in milliseconds. */
export type ExpectedRequest = {
  lease: HeldLease;
  model: string;
  /** How long it waits for a worker, and for its whole answer. */
  queueMs: number;
  requestMs: number;
  place: QueuePlace;
  /** Called once, before the reply says anything: how long the request waited until a worker took it, or until it had waited too long. */
  onQueued: (waited: { ms: number; isTaken: boolean }) => void;
};

/** What one client waits for. */
export interface ExpectedReply {
  /** The next event, or throws the `ApiError` that the client is to see. */
  next(): Promise<ReplyEvent>;
  /** The client has left: the job is called off, wherever it is. */
  abandon(): void;
  /** The same, for a client that is to see this error. */
  fail(error: ApiError): void;
}
