import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:net';

/** Below the ports that Linux takes for outgoing connections and for port 0. */
const firstPort = 11_000;
const portsEach = 300;
const processes = 70;

const first = firstPort + (process.pid % processes) * portsEach;
let chosen = randomInt(portsEach);

/**
 * A free port, for a listener whose address must be known before it starts or must stay the same after a restart. Each process chooses from
 * its own ports in turn, so that hardly any other takes this one before it is used. Fails if none of them is free.
 */
export async function freePort(): Promise<number> {
  for (let attempt = 1; ; attempt += 1) {
    chosen = (chosen + 1) % portsEach;
    const port = first + chosen;
    const server = createServer();
    try {
      server.listen(port, '127.0.0.1');
      await once(server, 'listening');
      server.close();
      await once(server, 'close');
      return port;
    } catch (error) {
      if (attempt === portsEach) throw error;
    }
  }
}
