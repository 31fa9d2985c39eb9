import type { Redis } from '../../shared/redis/connections.ts';
import { type Lane, leasesKey } from '../../shared/redis/keys.ts';
import { loadLua, loadScript } from '../../shared/redis/load-lua.ts';

const script = loadLua(new URL('./change-lease.lua', import.meta.url), { keys: 'leasesKey', args: 'request fields' });
type Given = { account: string; lane?: Lane; requestId: string; fields?: Readonly<Record<string, unknown>> };

/** Changes these fields of a request's lease, or writes one with them. Returns all of its fields. */
export async function changeLease(redis: Redis, { account, lane, requestId, fields = {} }: Given) {
  const given = { leasesKey: leasesKey(account, lane), request: requestId, fields: JSON.stringify(fields) };
  return JSON.parse(String(await loadScript(redis, script)(given)));
}
