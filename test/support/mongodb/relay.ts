import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';

/** `pass` relays, `refuse` ends each connection, `silence` accepts and takes everything but never answers. */
type Mode = 'pass' | 'refuse' | 'silence';

/** A TCP port of this machine that stands for `target` and can lose it; a change of mode to `pass` begins afresh. */
export type Relay = AsyncDisposable & { port: number; become(mode: Mode): void };

export async function startRelay(target: { host: string; port: number }, first: Mode): Promise<Relay> {
  let mode = first;
  const sockets = new Set<Socket>();
  const endAll = () => {
    for (const socket of sockets) socket.destroy();
  };

  const keep = (socket: Socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
    socket.on('close', () => sockets.delete(socket));
  };

  const server = createServer((client) => {
    keep(client);
    if (mode === 'refuse') return client.destroy();
    const upstream = connect(target);
    keep(upstream);
    for (const [from, to] of [[client, upstream] as const, [upstream, client] as const]) {
      from.on('data', (bytes) => mode === 'pass' && to.write(bytes));
      from.on('close', () => to.destroy());
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('a TCP server has an address with a port');

  return {
    port: address.port,
    become(next) {
      mode = next;
      if (next !== 'silence') endAll(); // bytes were lost in the silence: what is left of those streams makes no sense
    },
    async [Symbol.asyncDispose]() {
      server.close();
      endAll();
      await once(server, 'close');
    },
  };
}
