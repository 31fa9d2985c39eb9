import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { type Kind, watchTexts } from './watched-texts.ts';

export type Address = { host: string; port: number };

/**
 * `refuse` ends each connection at once, `reset` does so by RST. `black hole` accepts and takes everything, passes nothing on
 * and answers nothing; `swallow replies` passes on what comes, and nothing of what the target says to it. `slowMs` is for
 * each way. All of them hold for connections that are open as well.
 */
export type Mode = 'pass' | 'refuse' | 'reset' | 'black hole' | 'swallow replies' | { slowMs: number };

/** A TCP port of this machine that stands for a dependency, and can fail as one does. */
export interface TcpProxy extends AsyncDisposable {
  port: number;
  /** `pass` begins afresh where bytes may have been lost or held: such connections are ended. */
  become(mode: Mode): void;
  /** Another server from now on: connections to the one before are ended. */
  pointAt(target: Address): void;
  /** The first bytes that hold this text do not reach the target, nor does anything after them; resolves when they came. */
  holdBefore(text: string): Promise<void>;
  /** They do, but what the target answers on that connection from then on does not come back; resolves when it would. */
  holdAfter(text: string): Promise<void>;
  /**
   * Lets commands of these kinds through only all at once, kind after kind: so many of each on one connection. From the last
   * kind on nothing that the target answers there comes back; resolves when they are on their way.
   */
  swallow(kinds: readonly Kind[]): Promise<void>;
  /** How many connections it has with clients now. */
  connections(): number;
}

export async function startTcpProxy(first: Address, firstMode: Mode = 'pass'): Promise<TcpProxy> {
  let target = first;
  let mode = firstMode;
  const watched = watchTexts();
  const clients = new Set<Socket>();
  const upstreams = new Set<Socket>();

  const server = createServer((client) => {
    keep(client, clients);
    if (mode === 'refuse') return void client.destroy();
    if (mode === 'reset') return void client.resetAndDestroy();
    const upstream = connect(target);
    keep(upstream, upstreams);
    const passage = watched.open();
    const toTarget = slowly(upstream, () => mode);
    const toClient = slowly(client, () => mode);
    client.on('data', (bytes: Buffer) => {
      const passed = mode === 'black hole' ? undefined : passage.toTarget(bytes);
      if (passed !== undefined) toTarget(passed);
    });
    upstream.on('data', (bytes: Buffer) => {
      const isLost = mode === 'black hole' || mode === 'swallow replies';
      if (!isLost && passage.toClient()) toClient(bytes);
    });
    // Ended and not destroyed: with answers unread that would be a reset, which can overtake what is on its way.
    client.on('close', () => upstream.end());
    upstream.on('close', () => client.destroy());
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('a TCP server has an address with a port');

  function endAll(): void {
    for (const client of clients) {
      if (mode === 'reset') client.resetAndDestroy();
      else client.destroy();
    }
  }

  return {
    port: address.port,
    become(next) {
      const isBroken = next === 'pass' && [watched.forget(), !isWhole(mode)].includes(true);
      mode = next;
      if (mode === 'refuse' || mode === 'reset' || isBroken) endAll();
    },
    pointAt(next) {
      target = next;
      endAll();
    },
    holdBefore: watched.holdBefore,
    holdAfter: watched.holdAfter,
    swallow: watched.swallow,
    connections: () => clients.size,
    async [Symbol.asyncDispose]() {
      server.close();
      for (const socket of [...clients, ...upstreams]) socket.destroy();
      await once(server, 'close');
    },
  };
}

/** The address in a URL of any scheme that names one server. */
export function addressIn(url: string): Address {
  const { hostname, port } = new URL(url.replace(/^[\w+]+:/, 'http:'));
  return { host: hostname, port: Number(port) };
}

function isWhole(mode: Mode): boolean {
  return mode === 'pass' || typeof mode === 'object';
}

function keep(socket: Socket, sockets: Set<Socket>): void {
  sockets.add(socket);
  socket.on('error', () => {});
  socket.on('close', () => sockets.delete(socket));
}

/** Bytes in their order, each as late as the mode says that holds when it comes. */
function slowly(to: Socket, mode: () => Mode): (bytes: Buffer) => void {
  let late = 0;
  return (bytes) => {
    const now = mode();
    const slowMs = typeof now === 'object' ? now.slowMs : 0;
    if (slowMs === 0 && late === 0) return void to.write(bytes);
    late += 1;
    setTimeout(() => {
      late -= 1;
      if (!to.destroyed) to.write(bytes);
    }, slowMs);
  };
}
