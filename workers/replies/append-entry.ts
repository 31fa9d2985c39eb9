import { readFileSync } from 'node:fs';
import { loadScript, type Redis } from '../../shared/redis/connections.ts';

const lua = readFileSync(new URL('./append-entry.lua', import.meta.url), 'utf8');

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
    const append = loadScript(redis, { name: 'svcAppendEntry', lua, numberOfKeys: 1 });
    return (await append([stream], [lengthMax, ...fields])) !== null;
  }
}
