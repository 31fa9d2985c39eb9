import test from 'ava';
import Koa from 'koa';
import { listen } from '../../../ingress/listener/listener.ts';
import { answerBrokenRequest, answerErrors } from '../../../ingress/middleware/answer-errors.ts';
import { securityHeaders, setSecurityHeaders } from '../../../ingress/middleware/security-headers.ts';
import type { RequestState } from '../../../ingress/request-state.ts';
import { exchange } from '../../support/raw-http.ts';
import { recordedLog } from '../../support/recorded-log.ts';
import { unboundedConnections } from '../../support/unbounded-connections.ts';

for (const [baseUrl, transport] of [
  ['https://api.example.com', 'max-age=31536000'],
  ['HTTPS://api.example.com/', 'max-age=31536000'],
  ['http://127.0.0.1:8080', undefined],
] as const) {
  test(`answers below ${baseUrl}, and refusals of invalid requests, have the headers for browsers`, async (t) => {
    const { log } = recordedLog();
    const headers = securityHeaders(baseUrl);
    const app = new Koa<RequestState>();
    app.use(setSecurityHeaders(headers));
    app.use(answerErrors({ log, docsUrl: '' }));
    app.use(async (ctx) => {
      if (ctx.path !== '/') throw new Error('a fault');
      ctx.body = {};
    });
    const listener = await listen({
      connections: unboundedConnections,
      host: '127.0.0.1',
      port: 0,
      keepAliveMs: 65_000,
      onRequest: app.callback(),
      onBrokenRequest: answerBrokenRequest({ log, docsUrl: '', securityHeaders: headers, methods: ['GET'] }),
    });
    t.teardown(() => listener.close({ graceMs: 0, giveUp: () => {} }));
    for (const [send, status] of [
      ['GET / HTTP/1.1\r\nHost: x\r\n\r\n', 200],
      ['GET /fault HTTP/1.1\r\nHost: x\r\n\r\n', 500],
      ['hello\r\n\r\n', 400],
      ['CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n', 405],
    ] as const) {
      const answer = await exchange({ port: listener.port, send });
      t.is(answer.status, status);
      t.is(answer.headers['x-content-type-options'], 'nosniff', send);
      t.is(answer.headers['strict-transport-security'], transport, send);
    }
  });
}
