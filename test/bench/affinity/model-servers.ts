import { once } from 'node:events';
import { startModelServer } from '../../stack/model-server.ts';
import type { ServerCall, ServersOrder, ServersReply } from './start-model-servers.ts';

// All simulated model servers of a run in one process of their own. It receives one order, answers with the addresses, and then each
// message with the calls so far. It ends with the process that has started it.
const [order] = (await once(process, 'message')) as [ServersOrder]; // from start-model-servers.ts
const { count, models, ...options } = order;
const servers = await Promise.all(
  Array.from({ length: count }, (_, index) =>
    startModelServer({ ...options, name: `server-${index + 1}`, models, splitBytes: false }),
  ),
);
const reply = (value: ServersReply) => process.send?.(value);
reply({ urls: servers.map(({ url }) => url) });
process.on('message', () => reply({ calls: servers.flatMap((server, index) => callsOf(server, index)) }));
process.once('disconnect', () => process.exit());

/** Without the bodies, which are most of the bytes. */
function callsOf(server: (typeof servers)[number], index: number): ServerCall[] {
  return server.calls().map(({ body, requestId = '', promptTokens, cachedTokens, completionTokens, ...call }) => ({
    ...{ server: index, index: seedOf(body), requestId, promptTokens, cachedTokens, completionTokens },
    ...{ state: call.state, atOnce: call.atOnce, startedAt: call.startedAt, endedAt: call.endedAt ?? Date.now() },
  }));
}

/** The client's number of a request is its seed, which every gateway passes on. */
function seedOf(body: unknown): number {
  return Number((body as { seed?: unknown }).seed); // of a call that its endpoint has accepted
}
