import { loadScript, type Redis } from '../../shared/redis/connections.ts';
import { outboxKey, outboxMarksKey } from '../../shared/redis/keys.ts';
import { loadLua } from '../../shared/redis/load-lua.ts';

const lua = loadLua(new URL('./trim-outbox.lua', import.meta.url));

/** Removes the entries up to this stream id from the partition's outbox, as far as they are drained. */
export type TrimOutbox = (partition: number, streamId: string) => Promise<void>;

export function createTrimOutbox(redis: Redis): TrimOutbox {
  const run = loadScript(redis, { name: 'svcTrimOutbox', lua, numberOfKeys: 2 });
  return async (partition, streamId) => {
    await run([outboxKey(partition), outboxMarksKey(partition)], [streamId]);
  };
}
