import { randomUUID } from 'node:crypto';
import { decodeEntry, type Reply } from '../../shared/jobs/replies.ts';
import type { Redis } from '../../shared/redis/connections.ts';
import { replyStreamKey } from '../../shared/redis/keys.ts';

/** The reply stream of an ingress that the test simulates. */
export interface ReplyStream {
  key: string;
  /** All replies so far, in order. */
  replies(): Promise<Reply[]>;
  /** The first reply that matches, as soon as it arrives. The test's own timeout ends the wait. */
  reply(fits: (reply: Reply) => boolean): Promise<Reply>;
}

export async function openReplyStream(redis: Redis): Promise<ReplyStream> {
  const key = replyStreamKey(randomUUID());
  await redis.xadd(key, '*', 'opened', '1');

  async function replies(): Promise<Reply[]> {
    const entries = await redis.xrange(key, '-', '+');
    return entries.flatMap(([, fields]) => decodeEntry(fields));
  }

  return {
    key,
    replies,
    async reply(fits) {
      while (true) {
        const found = (await replies()).find(fits);
        if (found !== undefined) return found;
        await new Promise((resolve) => setTimeout(resolve, 5));
      }
    },
  };
}
