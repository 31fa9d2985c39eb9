import { decodeCancellation, decodeTaken } from '../shared/jobs/control-messages.ts';
import type { Log } from '../shared/process/log.ts';
import type { Redis } from '../shared/redis/connections.ts';
import { controlStreamKey } from '../shared/redis/keys.ts';
import { fieldsOf, type Inbox, openInbox, waitUntilOpen } from '../shared/redis/stream-inbox.ts';
import type { BatchSupervisor } from './batches/batch-supervisor.ts';
import { decodeLineEvent } from './batches/lines/line-events.ts';
import { decodeAssignment } from './batches/schedule-accounts.ts';
import type { ServedQueues } from './queue/serve-queues.ts';
import type { PieceReaders } from './replies/send-pieces.ts';
import { decodeDrainRequest } from './usage/notify-drainers.ts';
import type { UsageDrainer } from './usage/usage-drainer.ts';

/** A failover to a replica should be shorter. */
const waitMsMax = 5_000;

/**
 * Receives the entries of this worker's control stream: cancellations, what clients have taken, events of lines, assignments of accounts,
 * and drain requests. An entry whose receiver does not exist yet is dropped.
 */
export function listenForControl(deps: {
  connectReader: () => Redis;
  redis: Redis;
  workerId: string;
  queues: () => Pick<ServedQueues, 'cancel'> | undefined;
  pieceReaders: Pick<PieceReaders, 'report'>;
  supervisor: () => Pick<BatchSupervisor, 'receive' | 'take'> | undefined;
  drainer: () => Pick<UsageDrainer, 'notify'> | undefined;
  log: Log;
}): Inbox {
  const { connectReader, redis, workerId, log } = deps;
  return openInbox({
    connectReader,
    redis,
    log,
    // Always the same name: other workers find this stream by the worker id in the locks that it holds.
    keyOf: () => controlStreamKey(workerId),
    onEntry(entry) {
      const fields = fieldsOf(entry);
      const request = decodeCancellation(fields);
      if (request !== undefined) deps.queues()?.cancel(request, 'cancelled');
      const taken = decodeTaken(fields);
      if (taken !== undefined) deps.pieceReaders.report(taken);
      const event = decodeLineEvent(fields);
      if (event !== undefined) deps.supervisor()?.receive(event);
      deps.supervisor()?.take(decodeAssignment(fields));
      for (const partition of decodeDrainRequest(fields)) deps.drainer()?.notify(partition);
      return false;
    },
    // Lost cancellations only mean that those runs continue to their end. The scheduler of an account finds the lost lines of its batches.
    onLost: () => {},
  });
}

/**
 * Waits until the control stream exists. In a cluster its node can be away for long, so a worker starts without it after some seconds.
 * Until the node is back, nothing reaches the worker by its stream, but the requests and lines that it takes run.
 */
export async function waitForControl(
  inbox: Inbox,
  { redis, shutdown, log }: { redis: Redis; shutdown: AbortSignal; log: Log },
): Promise<void> {
  if (!redis.isCluster) return waitUntilOpen(inbox, shutdown);
  const signal = AbortSignal.any([shutdown, AbortSignal.timeout(waitMsMax)]);
  await waitUntilOpen(inbox, signal).catch(() => shutdown.throwIfAborted());
  if (inbox.address() === undefined)
    log.warn({}, 'the node of the control stream does not answer; starting without this stream, which is opened later');
}
