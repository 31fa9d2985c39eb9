import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';

export type ReceivedRequest = { path: string; headers: IncomingHttpHeaders; body: string };

type Answering = (request: ReceivedRequest, response: ServerResponse, raw: IncomingMessage) => void;

/** Answers with this status. */
export const answerWith =
  (status: number, headers: Record<string, string> = {}): Answering =>
  (_request, response) => {
    response.writeHead(status, headers).end('an answer');
  };

export const ok = answerWith(204);

export type WebhookReceiver = AsyncDisposable & {
  port: number;
  received: ReceivedRequest[];
  /** The connections that were opened. */
  connections(): number;
  /** How the next requests are answered. */
  answer(next: Answering): void;
  /** Resolves when so many requests have arrived. */
  arrived(count: number): Promise<void>;
};

/** A receiver of webhooks on loopback, without TLS. */
export async function startWebhookReceiver(answering: Answering = ok): Promise<WebhookReceiver> {
  let current = answering;
  let connections = 0;
  const received: ReceivedRequest[] = [];
  const waiting: { count: number; resolve: () => void }[] = [];
  const server = createServer(async (request, response) => {
    const body = (await buffer(request)).toString();
    const kept = { path: request.url ?? '', headers: request.headers, body };
    received.push(kept);
    for (const { count, resolve } of waiting) if (received.length >= count) resolve();
    current(kept, response, request);
  });
  server.on('connection', () => {
    connections += 1;
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port, // it listens on a port
    received,
    connections: () => connections,
    answer(next) {
      current = next;
    },
    arrived(count) {
      if (received.length >= count) return Promise.resolve();
      return new Promise((resolve) => {
        waiting.push({ count, resolve });
      });
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
