import { loadScript, type Redis } from '../../shared/redis/connections.ts';
import { outboxMarksKey } from '../../shared/redis/keys.ts';
import { loadLua } from '../../shared/redis/load-lua.ts';

const lua = loadLua(new URL('./mark-drained.lua', import.meta.url));

/** Call it only when the store has every entry of the partition's outbox up to this stream id. */
type MarkDrained = (partition: number, streamId: string) => Promise<void>;

export function createMarkDrained(redis: Redis): MarkDrained {
  const run = loadScript(redis, { name: 'svcMarkDrained', lua, numberOfKeys: 1 });
  return async (partition, streamId) => {
    await run([outboxMarksKey(partition)], [streamId]);
  };
}
