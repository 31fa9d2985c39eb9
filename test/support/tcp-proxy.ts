import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { type Kind, watchTexts } from './watched-texts.ts';

export type Address = { host: string; port: number };

/**
 * `refuse` ends each connection immediately, `reset` does so with RST. `black hole` accepts and reads everything, forwards nothing and
 * answers nothing. `swallow replies` forwards requests but no replies of the target. `slowMs` applies to each direction. All of them apply
 * to open connections as well.
 */
export type Mode = 'pass' | 'refuse' | 'reset' | 'black hole' | 'swallow replies' | { slowMs: number };

/** A TCP port of this machine that stands in for a dependency and can fail like one. */
export interface TcpProxy extends AsyncDisposable {
  port: number;
  /** After possible loss, `pass` starts over: connections with lost or held bytes are ended. */
  become(mode: Mode): void;
  /** Switches to another server: connections to the previous one are ended. */
  pointAt(target: Address): void;
  /** The first bytes that contain this text do not reach the target, nor does anything after them. Resolves when they arrive. */
  holdBefore(text: string): Promise<void>;
  /** They reach the target, but its replies on that connection are dropped from then on. Resolves when the first one arrives. */
  holdAfter(text: string): Promise<void>;
  /**
   * Forwards commands of these kinds only all at once, kind after kind: `count` of each on one connection. After the last kind the replies
   * of the target there are dropped. Resolves when the commands are forwarded.
   */
  swallow(kinds: readonly Kind[]): Promise<void>;
  /** The number of its current client connections. */
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
    // Ended and not destroyed: with unread responses a destroy would be a reset, which can overtake data in transit.
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

/** Bytes in order, each delayed by the mode that applies when it arrives. */
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
