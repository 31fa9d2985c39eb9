import { replyLost } from '../../shared/errors.ts';
import { decodeEntry } from '../../shared/jobs/replies.ts';
import type { Log } from '../../shared/process/log.ts';
import type { Redis } from '../../shared/redis/connections.ts';
import { replyStreamKey } from '../../shared/redis/keys.ts';
import { type Inbox, openInbox } from '../../shared/redis/stream-inbox.ts';
import type { WaitingRequests } from './waiting-requests.ts';

/**
 * Delivers the replies of this ingress's reply stream to the waiting requests. If the stream is lost, all of them fail
 * (contract.md#p7-lost-stream).
 */
export function listenForReplies({
  connectReader,
  redis,
  waitingRequests,
  log,
}: {
  connectReader: () => Redis;
  redis: Redis;
  waitingRequests: WaitingRequests;
  log: Log;
}): Inbox {
  return openInbox({
    connectReader,
    redis,
    log,
    keyOf: replyStreamKey,
    onEntry: (fields) => {
      const replies = decodeEntry(fields);
      for (const reply of replies) waitingRequests.deliver(reply);
      // While only text arrives, the next read may wait a few milliseconds for more.
      return replies.every(({ kind }) => kind === 'chunk');
    },
    onLost: (stream) => waitingRequests.failStream(stream, replyLost(false)),
    isInUse: waitingRequests.useStream,
  });
}
