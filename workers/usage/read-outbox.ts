import { readFileSync } from 'node:fs';
import type { Redis } from 'ioredis';
import { z } from 'zod';
import { loadScript } from '../../shared/redis/connections.ts';
import { outboxKey, outboxMarksKey } from '../../shared/redis/keys.ts';

const lua = readFileSync(new URL('./read-outbox.lua', import.meta.url), 'utf8');
const answerSchema = z.tuple([z.number(), z.string(), z.string()]);

/**
 * `waitingSince`: when the oldest entry that is not in the store was appended, in milliseconds of Redis's clock. `upTo`: the stream id
 * up to which all entries are in the store.
 */
export type OutboxStats = { length: number; waitingSince: number | undefined; upTo: string };

export function createReadOutbox(redis: Redis): (partition: number) => Promise<OutboxStats> {
  const run = loadScript(redis, { name: 'svcReadOutbox', lua, numberOfKeys: 2 });
  return async (partition) => {
    const answer = await run([outboxKey(partition), outboxMarksKey(partition)], []);
    const [length, oldest, upTo] = answerSchema.parse(answer);
    return { length, waitingSince: oldest === '' ? undefined : Number.parseInt(oldest, 10), upTo };
  };
}
