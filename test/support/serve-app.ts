import { once } from 'node:events';
import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';

/** Longer than tests of other files in this process may block it: otherwise the server closes connections that a client uses again. */
const keepAliveTimeout = 60_000;

/** An app behind a real HTTP server. Its disposal also cuts open connections. */
type ServedApp = Disposable & { server: Server; port: number; url: string };

/** Serves an app at a port of its own, at the address of this machine alone. */
export async function serveApp(app: { callback(): RequestListener }): Promise<ServedApp> {
  const server = createServer({ keepAliveTimeout }, app.callback()).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo; // a TCP server's address
  return {
    server,
    port,
    url: `http://127.0.0.1:${port}`,
    [Symbol.dispose]() {
      server.close();
      server.closeAllConnections();
    },
  };
}
