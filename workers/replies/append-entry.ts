import type { Redis } from '../../shared/redis/connections.ts';
import { loadLua, loadScript } from '../../shared/redis/load-lua.ts';

const script = loadLua(new URL('./append-entry.lua', import.meta.url), {
  keys: 'stream',
  args: 'lengthMax ...fields',
});

/**
 * Appends an entry to the reply stream of an ingress and trims it to about `lengthMax` entries. False if the stream is gone, and its
 * ingress with it. If Redis is out of memory, a script appends the entry.
 */
export async function appendEntry(
  redis: Redis,
  stream: string,
  { fields, lengthMax }: { fields: readonly string[]; lengthMax: number },
): Promise<boolean> {
  try {
    return (await redis.xadd(stream, 'NOMKSTREAM', 'MAXLEN', '~', lengthMax, '*', ...fields)) !== null;
  } catch (error) {
    if (!(error instanceof Error && error.message.startsWith('OOM '))) throw error;
    return (await loadScript(redis, script)({ stream, lengthMax, fields })) !== null;
  }
}
