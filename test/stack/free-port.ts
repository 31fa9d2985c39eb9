import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:net';

const attemptsMax = 100;

/**
 * A free port, for a listener whose address must be known before it starts or must stay the same after a restart. It is below the range
 * from which Linux takes ports for outgoing connections and for port 0, so neither can take it in the meantime.
 */
export async function freePort(): Promise<number> {
  for (let attempt = 1; ; attempt += 1) {
    const port = randomInt(11_000, 32_000);
    const server = createServer();
    try {
      server.listen(port, '127.0.0.1');
      await once(server, 'listening');
      server.close();
      await once(server, 'close');
      return port;
    } catch (error) {
      if (attempt === attemptsMax) throw error;
    }
  }
}
