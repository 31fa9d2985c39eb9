import type { Redis } from 'ioredis';
import { replyLost } from '../../shared/errors.ts';
import { decodeEntry } from '../../shared/jobs/reply-frames.ts';
import type { Log } from '../../shared/process/log.ts';
import { replyStreamKey } from '../../shared/redis/keys.ts';
import { type Inbox, openInbox } from '../../shared/redis/stream-inbox.ts';
import type { WaitingRequests } from './waiting-requests.ts';

/** Reads this ingress's reply stream into the requests that wait; when the stream is lost, they all fail. */
export function listenForReplies({
  reader,
  redis,
  waitingRequests,
  log,
}: {
  reader: Redis;
  redis: Redis;
  waitingRequests: WaitingRequests;
  log: Log;
}): Inbox {
  return openInbox({
    reader,
    redis,
    log,
    keyOf: replyStreamKey,
    onEntry: (fields) => {
      const replies = decodeEntry(fields);
      for (const reply of replies) waitingRequests.deliver(reply);
      // While texts come, an answer to another request can wait a few milliseconds with them.
      return replies.every(({ kind }) => kind === 'chunk');
    },
    onLost: () => waitingRequests.failAll(replyLost(false)),
  });
}
