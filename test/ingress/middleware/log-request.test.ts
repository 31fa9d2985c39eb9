import { connect } from 'node:net';
import type { ExecutionContext } from 'ava';
import test from 'ava';
import Koa from 'koa';
import { markReleased } from '../../../ingress/limits/settle-interrupted.ts';
import { createIngressMetrics } from '../../../ingress/metrics.ts';
import { noteClientAddress } from '../../../ingress/middleware/authenticate.ts';
import { logRequest } from '../../../ingress/middleware/observe-requests.ts';
import type { RequestState } from '../../../ingress/request-state.ts';
import { createRegistry } from '../../../shared/process/metrics.ts';
import { recordedLog } from '../../support/recorded-log.ts';
import { serveApp } from '../../support/serve-app.ts';

type Options = { trustedProxyHops?: number; answer?: () => Promise<void> };

const counting = { refusals: { count() {} }, fleetCounts: { add() {} } };

/** A listener with both stages; `line` is the next line of its log. */
async function start(t: ExecutionContext, { trustedProxyHops = 0, answer = async () => {} }: Options = {}) {
  const { log } = recordedLog();
  const said = Promise.withResolvers<object>();
  const app = new Koa<RequestState>();
  app.use(noteClientAddress({ trustedProxyHops }));
  const recording = { ...log, info: (fields: object, message: string) => said.resolve({ ...fields, message }) };
  const metrics = createIngressMetrics(createRegistry());
  app.use(logRequest({ log: recording as typeof log, metrics, ...counting }));
  app.use(async (ctx) => {
    await answer();
    ctx.body = {};
  });
  const served = await serveApp(app);
  t.teardown(() => served[Symbol.dispose]());
  return { port: served.port, url: `${served.url}/`, line: () => said.promise };
}

const forwarded = { 'x-forwarded-for': '203.0.113.66, 198.51.100.1, 10.0.0.1' };

test('the line of a request has the address that the outermost trusted proxy saw', async (t) => {
  for (const [trustedProxyHops, address] of ['127.0.0.1', '10.0.0.1', '198.51.100.1'].entries()) {
    const { url, line } = await start(t, { trustedProxyHops });
    await fetch(url, { headers: forwarded });
    t.like(await line(), { message: 'answered', status: '200', address });
  }
});

test('the line of a request has no other part of the header', async (t) => {
  const { url, line } = await start(t, { trustedProxyHops: 1 });
  await fetch(url, { headers: { 'x-forwarded-for': 'svc_secret' } });
  t.like(await line(), { address: '127.0.0.1' });
});

test('the line of a disconnected client has its address', async (t) => {
  const asked = Promise.withResolvers<void>();
  const { port, line } = await start(t, {
    answer: () => {
      asked.resolve();
      return new Promise(() => {});
    },
  });
  const client = connect(port, '127.0.0.1');
  client.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n');
  await asked.promise;
  client.destroy();
  t.like(await line(), { message: 'the client disconnected', status: 'aborted', address: '127.0.0.1' });
});

/** A listener that answers an inference request with this error; `counted` are the refusals so far. */
async function startRefusing(t: ExecutionContext, lease?: object) {
  const counted: object[] = [];
  const closed = Promise.withResolvers<void>();
  const app = new Koa<RequestState>();
  const log = { ...recordedLog().log, info: () => closed.resolve() };
  const metrics = createIngressMetrics(createRegistry());
  const refusals = { count: (refusal: object) => counted.push(refusal) };
  app.use(logRequest({ log: log as ReturnType<typeof recordedLog>['log'], metrics, ...counting, refusals }));
  app.use((ctx) => {
    Object.assign(ctx, { _matchedRoute: '/v1/chat/completions' });
    Object.assign(ctx.state, {
      lease,
      errorCode: 'SERVICE_UNAVAILABLE',
      caller: { account: 'user:ann', keyId: 'key_1' },
    });
    ctx.status = 503;
  });
  const served = await serveApp(app);
  t.teardown(() => served[Symbol.dispose]());
  await fetch(`${served.url}/`);
  await closed.promise;
  return counted;
}

const refusal = { account: 'user:ann', keyId: 'key_1', code: 'SERVICE_UNAVAILABLE' };

test('a request that was refused before admission, or whose admission was taken back, is counted as refused', async (t) => {
  t.deepEqual(await startRefusing(t), [refusal]);
  t.deepEqual(await startRefusing(t, { isReleased: true }), [refusal]);
});

test('a request whose admission is taken back after its answer is counted then, and once', async (t) => {
  const lease: Parameters<typeof markReleased>[0] = {};
  const counted = await startRefusing(t, lease);
  t.deepEqual(counted, []);
  markReleased(lease);
  markReleased(lease);
  t.deepEqual(counted, [refusal]);
});
