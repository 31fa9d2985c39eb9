import { readFileSync } from 'node:fs';
import type { Redis } from 'ioredis';
import { loadScript } from '../../shared/redis.ts';
import { replyStreamLengthMax } from '../../shared/replies.ts';

const lua = readFileSync(new URL('./append-reply.lua', import.meta.url), 'utf8');

/**
 * Appends an entry to the reply stream of an ingress; false when that stream is gone, and its ingress with it. A plain XADD,
 * and one that runs without memory where Redis refuses that.
 */
export async function appendReply(redis: Redis, stream: string, fields: readonly string[]): Promise<boolean> {
  try {
    return (await redis.xadd(stream, 'NOMKSTREAM', 'MAXLEN', '~', replyStreamLengthMax, '*', ...fields)) !== null;
  } catch (error) {
    if (!(error instanceof Error && error.message.startsWith('OOM '))) throw error;
    const append = loadScript(redis, { name: 'svcAppendReply', lua, numberOfKeys: 1 });
    return (await append([stream], [replyStreamLengthMax, ...fields])) !== null;
  }
}
