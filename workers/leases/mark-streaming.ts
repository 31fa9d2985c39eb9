import { loadScript, type Redis } from '../../shared/redis/connections.ts';
import { leasesKey } from '../../shared/redis/keys.ts';
import { loadLua } from '../../shared/redis/load-lua.ts';

export type MarkStreaming = (given: { account: string; requestId: string; run: number }) => Promise<void>;

/** From now on no other run of the request may begin: the client has a part of this run's answer. */
export function createMarkStreaming(redis: Redis): MarkStreaming {
  const lua = loadLua(new URL('./mark-streaming.lua', import.meta.url));
  const call = loadScript(redis, { name: 'svcMarkStreaming', lua, numberOfKeys: 1 });
  return async ({ account, requestId, run }) => {
    await call([leasesKey(account)], [requestId, run]);
  };
}
