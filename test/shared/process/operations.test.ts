import { once } from 'node:events';
import { request } from 'node:http';
import { text as readText } from 'node:stream/consumers';
import type { ExecutionContext } from 'ava';
import test from 'ava';
import type Koa from 'koa';
import { Counter, Registry } from 'prom-client';
import { ApiError } from '../../../shared/errors.ts';
import {
  type Check,
  listenForOperations,
  type ProcessState,
  refuseForeignHosts,
} from '../../../shared/process/operations.ts';
import { recordedLog } from '../../support/recorded-log.ts';

const { log } = recordedLog();

type OperationsDeps = Parameters<typeof listenForOperations>[0];
type Wishes = Partial<
  Pick<OperationsDeps, 'state' | 'required' | 'checks' | 'registry' | 'details' | 'pages' | 'afterScrape'>
>;

const answers: Check = async () => 'PONG';
const fails: Check = async () => {
  throw new Error('connect ECONNREFUSED redis.internal:6379');
};
const hangs: Check = () => new Promise(() => {});

async function start(t: ExecutionContext, wishes: Wishes = {}): Promise<string> {
  const usual = {
    state: (): ProcessState => 'ready',
    required: { redis: answers },
    checks: () => ({}),
    registry: new Registry(),
  };
  const listener = await listenForOperations({
    host: '127.0.0.1',
    port: 0,
    hostsAllowed: ['worker'],
    ...usual,
    ...wishes,
    log,
  });
  t.teardown(() => listener[Symbol.asyncDispose]());
  return `http://127.0.0.1:${listener.port}`;
}

type Readiness = { ready: boolean; state: string; dependencies: Record<string, { state: string; latencyMs: number }> };

async function readiness(url: string): Promise<{ status: number; text: string; body: Readiness }> {
  const response = await fetch(`${url}/readyz`);
  const text = await response.text();
  return { status: response.status, text, body: JSON.parse(text) as Readiness }; // the listener's own answer
}

test('/healthz is 200 while the process is alive, in any state and without Redis', async (t) => {
  for (const state of ['starting', 'ready', 'stopping'] as const) {
    const url = await start(t, { state: () => state, required: { redis: fails } });
    const response = await fetch(`${url}/healthz`);
    t.is(response.status, 200);
    t.deepEqual(await response.json(), { status: 'ok' });
  }
});

test('/readyz is 200 when the process is ready and Redis answers, and 503 in any other state', async (t) => {
  let state: ProcessState = 'starting';
  const url = await start(t, { state: () => state });
  for (const [next, status] of [
    ['starting', 503],
    ['ready', 200],
    ['stopping', 503],
  ] as const) {
    state = next;
    const answer = await readiness(url);
    t.is(answer.status, status, next);
    t.like(answer.body, { ready: status === 200, state: next });
    t.is(answer.body.dependencies.redis?.state, 'ok');
  }
});

test('/readyz is 503 while Redis is unavailable, and 200 after it is back', async (t) => {
  let checkRedis = fails;
  const url = await start(t, { required: { redis: () => checkRedis() } });
  const unavailable = await readiness(url);
  t.is(unavailable.status, 503);
  t.like(unavailable.body, { ready: false, state: 'ready' });
  t.is(unavailable.body.dependencies.redis?.state, 'degraded');
  t.false(unavailable.text.includes('redis.internal'), 'the reason is only logged');
  checkRedis = answers;
  t.is((await readiness(url)).status, 200);
});

test('/readyz lists an unavailable dependency by name, and remains 200', async (t) => {
  const throwsAtOnce: Check = () => {
    throw new Error('not even a promise');
  };
  const url = await start(t, { checks: () => ({ store: fails, identityProvider: answers, backend: throwsAtOnce }) });
  const { status, body } = await readiness(url);
  t.is(status, 200);
  const states = Object.entries(body.dependencies).map(([name, { state }]) => [name, state]);
  t.deepEqual(Object.fromEntries(states), {
    redis: 'ok',
    store: 'degraded',
    identityProvider: 'ok',
    backend: 'degraded',
  });
  t.true(Object.values(body.dependencies).every(({ latencyMs }) => Number.isInteger(latencyMs)));
});

test('a dependency that never answers is reported as degraded, and does not delay the others', async (t) => {
  t.timeout(60_000);
  const { status, body } = await readiness(await start(t, { checks: () => ({ store: hangs, other: hangs }) }));
  t.is(status, 200);
  t.is(body.dependencies.store?.state, 'degraded');
  t.true((body.dependencies.store?.latencyMs ?? 0) >= 990);
  t.is(body.dependencies.redis?.state, 'ok');

  const hanging = await readiness(await start(t, { required: { redis: hangs } }));
  t.is(hanging.status, 503);
});

test('/metrics returns the metrics in the text format of Prometheus', async (t) => {
  const registry = new Registry();
  new Counter({ name: 'svc_things_total', help: 'Things', registers: [registry] }).inc(3);
  const response = await fetch(`${await start(t, { registry })}/metrics`);
  t.is(response.status, 200);
  t.is(response.headers.get('content-type'), registry.contentType);
  t.regex(await response.text(), /^svc_things_total 3$/m);
});

test('a scrape has the values from before what is called after it', async (t) => {
  const registry = new Registry();
  const things = new Counter({ name: 'svc_things_total', help: 'Things', registers: [registry] });
  const url = await start(t, { registry, afterScrape: async () => things.inc() });
  await fetch(`${url}/metrics`, { method: 'HEAD' }); // shows no values
  for (const value of [0, 1])
    t.regex(await (await fetch(`${url}/metrics`)).text(), new RegExp(`^svc_things_total ${value}$`, 'm'));
});

test('a scrape has whether each required check passes, in any state, and waits no longer than /readyz for one that hangs', async (t) => {
  t.timeout(60_000);
  let redis = answers;
  let calls = 0;
  const checkRedis: Check = () => {
    calls++;
    return redis();
  };
  const throwsAtOnce: Check = () => {
    throw new Error('not even a promise');
  };
  for (const state of ['starting', 'ready', 'stopping'] as const) {
    const url = await start(t, {
      state: () => state,
      required: { redis: checkRedis, replyRedis: throwsAtOnce },
      checks: () => ({ store: fails }),
    });
    for (const [check, value] of [
      [answers, 1],
      [fails, 0],
      [hangs, 0],
      [answers, 1],
    ] as const) {
      redis = check;
      calls = 0;
      const response = await fetch(`${url}/metrics`);
      t.is(response.status, 200);
      const lines = (await response.text()).split('\n').filter((line) => line.startsWith('svc_readiness_checks'));
      t.deepEqual(lines.toSorted(), [
        `svc_readiness_checks{check="redis"} ${value}`,
        'svc_readiness_checks{check="replyRedis"} 0',
      ]);
      t.is(calls, 1);
    }
  }
});

test('metrics that cannot be collected are an internal error, as JSON and without its cause', async (t) => {
  const registry = new Registry();
  new Counter({
    name: 'svc_broken_total',
    help: 'Broken',
    registers: [registry],
    collect() {
      throw new Error('redis.internal');
    },
  });
  const url = await start(t, { registry });
  const response = await fetch(`${url}/metrics`);
  t.is(response.status, 500);
  t.deepEqual(await response.json(), { error: 'Something went wrong on our side.', code: 'INTERNAL_ERROR' });
  t.is((await fetch(`${url}/healthz`)).status, 200);
});

test('an unknown path and a wrong method are rejected as JSON', async (t) => {
  const url = await start(t);
  for (const path of ['/', '/healthz/', '/metrics/x', '/v1/models', '/%zz']) {
    const response = await fetch(url + path);
    t.is(response.status, 404, path);
    t.deepEqual(await response.json(), { error: 'There is nothing at this path.', code: 'NOT_FOUND' });
  }
  for (const method of ['POST', 'PUT', 'DELETE', 'PATCH', 'OPTIONS']) {
    const response = await fetch(`${url}/healthz`, { method });
    t.is(response.status, 405, method);
    t.is(response.headers.get('allow'), 'GET, HEAD');
    t.like(await response.json(), { code: 'METHOD_NOT_ALLOWED' });
  }
  const head = await fetch(`${url}/healthz`, { method: 'HEAD' });
  t.is(head.status, 200);
  t.is(await head.text(), '');
});

test('a port in use is named with its setting at start', async (t) => {
  const { port } = new URL(await start(t));
  const second = listenForOperations({
    host: '127.0.0.1',
    port: Number(port),
    hostsAllowed: [],
    registry: new Registry(),
    state: () => 'ready',
    required: { redis: answers },
    checks: () => ({}),
    log,
  });
  await t.throwsAsync(second, {
    name: 'StartError',
    message: `OPS_PORT: 127.0.0.1:${port} is in use by another process. End that process, or set OPS_PORT to a free port.`,
  });
});

test('/readyz includes the details of the process, which never replace its own fields', async (t) => {
  let breakers = { 'onprem-a small-chat': 'closed' };
  const url = await start(t, { details: () => ({ breakers, ready: 'no', state: 'no', dependencies: 'no' }) });
  t.like((await readiness(url)).body, { ready: true, state: 'ready', breakers: { 'onprem-a small-chat': 'closed' } });
  t.is((await readiness(url)).body.dependencies.redis?.state, 'ok');
  breakers = { 'onprem-a small-chat': 'open' };
  t.like((await readiness(url)).body, { breakers: { 'onprem-a small-chat': 'open' } });
});

test('additional pages are served beside the others, accept other methods, and report errors as JSON', async (t) => {
  const url = await start(t, {
    async pages(ctx, next) {
      if (ctx.path === '/page') ctx.body = `${ctx.method} page`;
      else if (ctx.path === '/refused') throw new ApiError('FORBIDDEN', 'Not here.');
      else if (ctx.path === '/broken') throw new Error('redis.internal');
      else await next();
    },
  });
  const post = await fetch(`${url}/page`, { method: 'POST' });
  t.deepEqual([post.status, await post.text()], [200, 'POST page']);
  for (const [path, status, body] of [
    ['/refused', 403, { error: 'Not here.', code: 'FORBIDDEN' }],
    ['/broken', 500, { error: 'Something went wrong on our side.', code: 'INTERNAL_ERROR' }],
    ['/none', 404, { error: 'There is nothing at this path.', code: 'NOT_FOUND' }],
  ] as const) {
    const response = await fetch(url + path);
    t.is(response.status, status, path);
    t.deepEqual(await response.json(), body);
  }
  t.is((await fetch(`${url}/healthz`)).status, 200);
  t.is((await fetch(`${url}/healthz`, { method: 'POST' })).status, 405);
});

test('every path is rejected under a foreign host name, and served under the allowed names', async (t) => {
  const url = await start(t, { pages: showQueues });
  for (const path of ['/healthz', '/readyz', '/metrics', '/queues', '/nowhere']) {
    const refused = await askAs('hostile.example', `${url}${path}`);
    t.is(refused.status, 403, path);
    t.is(refused.nosniff, 'nosniff', path);
    t.is(JSON.parse(refused.text).code, 'FORBIDDEN');
    for (const own of ['worker:8082', 'localhost']) {
      const answer = await askAs(own, `${url}${path}`);
      t.deepEqual([answer.status, answer.nosniff], [path === '/nowhere' ? 404 : 200, 'nosniff'], path);
    }
  }
});

async function showQueues(ctx: Koa.Context, next: Koa.Next): Promise<void> {
  if (ctx.path !== '/queues') return next();
  ctx.body = 'a page';
}

/** `fetch` does not let its caller set this header. */
async function askAs(host: string, url: string) {
  const exchange = request(url, { headers: { host } }).end();
  const [response] = await once(exchange, 'response');
  const nosniff = response.headers['x-content-type-options'];
  return { status: response.statusCode, nosniff, text: await readText(response) };
}

function passes(hostHeader: string, { host = '127.0.0.1', hostsAllowed = [] as string[] } = {}): boolean {
  const ctx = { get: (name: string) => (name === 'host' ? hostHeader : '') } as unknown as Koa.Context; // the only fields that are read
  try {
    return refuseForeignHosts({ host, hostsAllowed })(ctx, async () => {}) !== undefined;
  } catch (error) {
    if ((error as { code?: unknown }).code === 'FORBIDDEN') return false;
    throw error;
  }
}

const hostile = [
  'hostile.example',
  'hostile.example:8081',
  '127.0.0.1.hostile.example',
  'localhost.hostile.example',
  'hostile.example#127.0.0.1',
  'localhost@hostile.example',
  '[::1].hostile.example',
  '[hostile.example]',
  'localhost:8081:1',
  'worker',
  '1.2.3',
];

test('a listener on loopback accepts names and addresses of loopback only', (t) => {
  for (const host of ['127.0.0.1', '::1', 'localhost', '127.1.2.3']) {
    for (const own of ['localhost', 'LOCALHOST:8081', 'localhost.', '127.0.0.1:8081', '[::1]', '[::1]:8081', '']) {
      t.true(passes(own, { host }), `${own} on ${host}`);
    }
    for (const foreign of [...hostile, '10.1.2.3:8081', '[fd00::1]:8081']) {
      t.false(passes(foreign, { host }), `${foreign} on ${host}`);
    }
  }
});

test('any other listener accepts every IP address, which no page can be rebound to, localhost and its own name', (t) => {
  for (const host of ['0.0.0.0', '::', '10.1.2.3', 'ops.internal']) {
    for (const own of ['10.1.2.3:8081', '[fd00::1]:8081', '127.0.0.1', 'localhost:8081', '']) {
      t.true(passes(own, { host }), `${own} on ${host}`);
    }
    for (const foreign of hostile) t.false(passes(foreign, { host }), `${foreign} on ${host}`);
    t.is(passes('ops.internal:8081', { host }), host === 'ops.internal');
  }
});

test('further names and addresses are allowed by their setting, as complete names and in any letter case', (t) => {
  const hostsAllowed = ['worker', 'Ingress.prod.svc', '10.1.2.3'];
  for (const own of ['worker:8082', 'ingress.PROD.svc', 'ingress.prod.svc.:8081', '10.1.2.3:8081']) {
    t.true(passes(own, { hostsAllowed }), own);
  }
  for (const foreign of ['a.worker', 'prod.svc', '10.1.2.4', ...hostile.filter((name) => name !== 'worker')]) {
    t.false(passes(foreign, { hostsAllowed }), foreign);
  }
});
