import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:net';

/** A port of this machine that nobody listens on now; another process may still come first. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  server.close();
  await once(server, 'close');
  if (address === null || typeof address === 'string') throw new Error('a TCP listener has a port');
  return address.port;
}

/**
 * One for a listener whose address has to be known before it starts: below those that the kernel gives to clients, so that
 * only somebody else who asks for one like this can take it.
 */
export async function freeFixedPort(): Promise<number> {
  for (let attempt = 1; ; attempt += 1) {
    const port = randomInt(20_000, 30_000);
    const server = createServer();
    try {
      server.listen(port, '127.0.0.1');
      await once(server, 'listening');
      server.close();
      await once(server, 'close');
      return port;
    } catch (error) {
      if (attempt === 100) throw error;
    }
  }
}
