import { decodeCancellation } from '../shared/jobs/cancellation.ts';
import type { Log } from '../shared/process/log.ts';
import type { Redis } from '../shared/redis/connections.ts';
import { controlStreamKey } from '../shared/redis/keys.ts';
import { fieldsOf, type Inbox, openInbox } from '../shared/redis/stream-inbox.ts';
import { decodeLineEvent } from './batches/lines/line-events.ts';
import { decodeAssignment } from './batches/scheduler/assign-accounts.ts';
import type { BatchSupervisor } from './batches/scheduler/batch-supervisor.ts';
import type { QueuesServed } from './queue/serve-queues.ts';
import { decodeDrainRequest } from './usage/notify-drainers.ts';
import type { UsageDrainer } from './usage/usage-drainer.ts';

/**
 * Receives the entries of this worker's control stream: cancellations, events of lines, assignments of accounts, and drain requests. An
 * entry whose receiver does not exist yet is dropped.
 */
export function listenForControl(deps: {
  connectReader: () => Redis;
  redis: Redis;
  workerId: string;
  queues: () => Pick<QueuesServed, 'cancel'> | undefined;
  supervisor: () => Pick<BatchSupervisor, 'receive' | 'take'> | undefined;
  drainer: () => Pick<UsageDrainer, 'notify'> | undefined;
  log: Log;
}): Inbox {
  const { connectReader, redis, workerId, log } = deps;
  return openInbox({
    ...{ connectReader, redis, log },
    // Always the same name: other workers find this stream by the worker id in the locks that it holds.
    keyOf: () => controlStreamKey(workerId),
    onEntry(entry) {
      const fields = fieldsOf(entry);
      const request = decodeCancellation(fields);
      if (request !== undefined) deps.queues()?.cancel(request, 'cancelled');
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
