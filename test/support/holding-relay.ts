import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';

/** A TCP port of this machine that stands for `target`, and can stop at an exact point of what goes through it. */
export type HoldingRelay = AsyncDisposable & {
  port: number;
  /** The first bytes that hold this text do not reach the target, nor does anything after them; resolves when they came. */
  holdBefore(text: string): Promise<void>;
  /** They do, but what the target answers on that connection from then on does not come back; resolves when it would. */
  holdAfter(text: string): Promise<void>;
};

type Hold = { text: string; where: 'before' | 'after'; reached: () => void };

export async function startHoldingRelay(target: { host: string; port: number }): Promise<HoldingRelay> {
  let hold: Hold | undefined;
  const sockets = new Set<Socket>();
  const keep = (socket: Socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
    socket.on('close', () => sockets.delete(socket));
  };

  const server = createServer((client) => {
    const upstream = connect(target);
    for (const socket of [client, upstream]) keep(socket);
    let heldBefore = false;
    let heldAfter: Hold | undefined;
    client.on('data', (bytes) => {
      const wanted = hold !== undefined && bytes.includes(hold.text) ? hold : undefined;
      if (wanted?.where === 'before') {
        heldBefore = true;
        wanted.reached();
      }
      if (wanted?.where === 'after') heldAfter = wanted;
      if (!heldBefore) upstream.write(bytes);
    });
    upstream.on('data', (bytes) => {
      if (heldAfter === undefined) client.write(bytes);
      else heldAfter.reached();
    });
    client.on('close', () => upstream.destroy());
    upstream.on('close', () => client.destroy());
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('a TCP server has an address with a port');

  const holdAt = (where: Hold['where']) => (text: string) =>
    new Promise<void>((reached) => {
      hold = { text, where, reached };
    });
  return {
    port: address.port,
    holdBefore: holdAt('before'),
    holdAfter: holdAt('after'),
    async [Symbol.asyncDispose]() {
      server.close();
      for (const socket of sockets) socket.destroy();
      await once(server, 'close');
    },
  };
}
