import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';

/**
 * A TCP port of this machine that stands for `target`, on which many calls at once can be carried out and never answered.
 * Commands are known by a text that each of them holds once.
 */
export type SwallowingRelay = AsyncDisposable & {
  port: number;
  /**
   * Lets these commands through only all at once, kind after kind: so many of each. From the last kind on nothing that the
   * target answers on that connection comes back; resolves when they are on their way.
   */
  swallow(kinds: readonly Kind[]): Promise<void>;
  /** Ends every connection, and passes everything on for those that are opened from now on. */
  restore(): void;
};

type Kind = { text: string; count: number };
type Plan = { kinds: readonly Kind[]; sent: () => void };

export async function startSwallowingRelay(target: { host: string; port: number }): Promise<SwallowingRelay> {
  let plan: Plan | undefined;
  const clients = new Set<Socket>();
  const upstreams = new Set<Socket>();
  const keep = (socket: Socket, sockets: Set<Socket>) => {
    sockets.add(socket);
    socket.on('error', () => {});
    socket.on('close', () => sockets.delete(socket));
  };

  const server = createServer((client) => {
    const upstream = connect(target);
    keep(client, clients);
    keep(upstream, upstreams);
    let held = Buffer.alloc(0);
    let passed = 0;
    let isSwallowed = false;

    client.on('data', (bytes: Buffer) => {
      held = Buffer.concat([held, bytes]);
      const kind = plan?.kinds[passed];
      const seen = kind === undefined ? 0 : held.toString('latin1').split(kind.text).length - 1;
      if (kind !== undefined && seen > 0 && seen < kind.count) return;
      if (kind !== undefined && seen >= kind.count) passed += 1;
      isSwallowed = passed > 0 && passed === plan?.kinds.length;
      upstream.write(held);
      held = Buffer.alloc(0);
      if (isSwallowed) plan?.sent();
    });
    upstream.on('data', (bytes) => {
      if (!isSwallowed) client.write(bytes);
    });
    // Ended and not destroyed: with answers unread that would be a reset, which can overtake what is on its way.
    client.on('close', () => upstream.end());
    upstream.on('close', () => client.destroy());
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('a TCP server has an address with a port');

  return {
    port: address.port,
    swallow: (kinds) =>
      new Promise<void>((sent) => {
        plan = { kinds, sent };
      }),
    restore() {
      plan = undefined;
      for (const socket of clients) socket.destroy();
    },
    async [Symbol.asyncDispose]() {
      server.close();
      for (const socket of [...clients, ...upstreams]) socket.destroy();
      await once(server, 'close');
    },
  };
}
