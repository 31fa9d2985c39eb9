import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type Server } from 'node:net';

/** Below the ports that Linux takes for outgoing connections and for port 0. */
const firstPort = 11_000;
const portsEach = 300;
const ranges = 70;

/** What a developer can do about a port in use. */
export const portAdvice = 'End that process, or run npm start -- --free-ports --data <folder>';

let held: { first: Promise<number>; chosen: number } | undefined;

/**
 * A free port, for a listener whose address must be known before it starts or must stay the same after a restart. Each process chooses in
 * turn from ranges that it alone holds, and no port twice. So no other takes this one before it is used, or while its listener is down.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    if (held === undefined || held.chosen === portsEach - 1) held = { first: holdRange(), chosen: 0 };
    held.chosen += 1;
    const { chosen } = held;
    const port = (await held.first) + chosen;
    if (await isFree(port)) return port;
  }
}

const nearMax = 1_000;

/** These ports, but each that another process listens on is replaced by the next one that is free and not among them. */
export async function portsNear(wanted: readonly number[]): Promise<number[]> {
  const chosen: number[] = [];
  for (const port of wanted) {
    let found = port;
    while (!(await isFree(found)) && found < port + nearMax) {
      do found += 1;
      while (wanted.includes(found) || chosen.includes(found));
    }
    chosen.push(found);
  }
  return chosen;
}

async function isFree(port: number): Promise<boolean> {
  const server = await listen(port);
  if (server === undefined) return false;
  server.close();
  await once(server, 'close');
  return true;
}

/** Returns the first port of a range that no other process has. It is listened on until this process ends, in whichever way. */
async function holdRange(): Promise<number> {
  const start = randomInt(ranges);
  for (let tried = 0; tried < ranges; tried += 1) {
    const first = firstPort + ((start + tried) % ranges) * portsEach;
    const server = await listen(first);
    if (server === undefined) continue;
    server.unref();
    return first;
  }
  throw new Error('no range of ports is free');
}

/** Undefined if this port is not free. */
async function listen(port: number): Promise<Server | undefined> {
  const server = createServer();
  try {
    server.listen(port, '127.0.0.1');
    await once(server, 'listening');
    return server;
  } catch {
    return undefined;
  }
}
