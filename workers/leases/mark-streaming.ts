import type { Redis } from '../../shared/redis/connections.ts';
import { leasesKey } from '../../shared/redis/keys.ts';
import { loadLua, loadScript } from '../../shared/redis/load-lua.ts';

const script = loadLua(new URL('./mark-streaming.lua', import.meta.url), { keys: 'leasesKey', args: 'request run' });

export type MarkStreaming = (given: { account: string; requestId: string; run: number }) => Promise<void>;

/** From now on no other run of the request may begin: the client has a part of this run's answer. */
export function createMarkStreaming(redis: Redis): MarkStreaming {
  const call = loadScript(redis, script);
  return async ({ account, requestId, run }) => {
    await call({ leasesKey: leasesKey(account), request: requestId, run });
  };
}
