import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:net';

const attempts = 100;

/**
 * A port of this machine that nobody listens on now, for a listener whose address must be known before it starts, or be the
 * same when it starts again. It is below those that the kernel gives to clients and to listeners without a wish, so that only
 * somebody else who asks for one like this can come first.
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
      if (attempt === attempts) throw error;
    }
  }
}
