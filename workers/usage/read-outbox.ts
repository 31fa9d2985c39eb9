import { readFileSync } from 'node:fs';
import { z } from 'zod';
import { loadScript, type Redis } from '../../shared/redis/connections.ts';
import { outboxKey, outboxMarksKey } from '../../shared/redis/keys.ts';

const lua = readFileSync(new URL('./read-outbox.lua', import.meta.url), 'utf8');
const answerSchema = z.tuple([z.number(), z.string(), z.string(), z.number()]);

/**
 * `waitingMs`: how long the oldest entry that is not in the store has waited, in milliseconds; 0 if there is none. `upTo`: the stream id up
 * to which all entries are in the store.
 */
export type OutboxStats = { length: number; waitingMs: number; upTo: string };

export function createReadOutbox(redis: Redis): (partition: number) => Promise<OutboxStats> {
  const run = loadScript(redis, { name: 'svcReadOutbox', lua, numberOfKeys: 2 });
  return async (partition) => {
    const answer = await run([outboxKey(partition), outboxMarksKey(partition)], []);
    const [length, oldest, upTo, now] = answerSchema.parse(answer);
    return { length, waitingMs: oldest === '' ? 0 : Math.max(0, now - Number.parseInt(oldest, 10)), upTo };
  };
}
