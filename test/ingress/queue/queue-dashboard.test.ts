import { request as send } from 'node:http';
import { createRequire } from 'node:module';
import { text as readText } from 'node:stream/consumers';
import type { ExecutionContext } from 'ava';
import test from 'ava';
import type { Queue } from 'bullmq';
import { Registry } from 'prom-client';
import { createQueueDashboard } from '../../../ingress/queue/queue-dashboard.ts';
import { allQueues, jobName, openQueue } from '../../../shared/jobs/queues.ts';
import { listenForOperations } from '../../../shared/process/operations.ts';
import { connectForRequests } from '../../../shared/redis/connections.ts';
import { waitUntilReady } from '../../../shared/redis/wait-for-redis.ts';
import { startPrivateRedis } from '../../support/private-redis.ts';
import { recordedLog } from '../../support/recorded-log.ts';
import { contentsOf } from '../../support/redis-contents.ts';

const secret = 'content of a client message';
const jobId = 'req_1';
const data = { requestId: jobId, account: 'user:alice', model: 'small-chat', payload: JSON.stringify({ secret }) };
const { log } = recordedLog();

type Wishes = { writable?: boolean; show?: boolean };

/** The dashboard on an operations listener, over the queues of two models with one job, which no worker takes. */
async function start(t: ExecutionContext, { writable = false, show = true }: Wishes = {}) {
  const parts = new AsyncDisposableStack();
  t.teardown(() => parts.disposeAsync());
  const { server, redis } = parts.use(await startPrivateRedis());
  const connection = parts.adopt(connectForRequests(server.url, log), (opened) => opened.disconnect());
  await waitUntilReady(connection, AbortSignal.timeout(30_000));
  const shown = allQueues({ 'small-chat': { pool: 'default' }, 'large-chat': { pool: 'large' } });
  const queues = shown.map((id) => ({ queue: openQueue(id, { connection, log }), pool: id.pool }));
  const dashboard = createQueueDashboard({ writable, log });
  if (show) dashboard.show(queues, async (pool) => (pool === 'default' ? ['worker-1', 'worker-2'] : []));
  await queues[0]?.queue.add(jobName, data, { jobId, priority: 7 });
  const listener = parts.use(
    await listenForOperations({
      ...{
        host: '127.0.0.1',
        port: 0,
        hostsAllowed: [],
        registry: new Registry(),
        state: () => 'ready',
        checks: () => ({}),
        log,
      },
      required: { redis: () => connection.ping() },
      pages: dashboard.pages,
    }),
  );

  /** Can set headers that browsers do not let a page set. */
  async function ask(path: string, { method = 'GET', headers = {}, body }: Request = {}) {
    const exchange = send({ host: '127.0.0.1', port: listener.port, path, method, headers });
    exchange.end(body);
    const { promise, resolve, reject } = Promise.withResolvers<import('node:http').IncomingMessage>();
    exchange.once('response', resolve).once('error', reject);
    const response = await promise;
    return { status: response.statusCode, headers: response.headers, text: await readText(response) };
  }
  const contents = async () => (JSON.parse(await contentsOf(redis)) as [string, unknown][]).sort(); // by their keys
  return {
    ask,
    server,
    contents,
    queues: queues.map(({ queue }) => queue) as [Queue, ...Queue[]],
    port: listener.port,
  };
}

type Request = { method?: string; headers?: Record<string, string>; body?: string };

const json = { 'content-type': 'application/json' };
const noSuchPage = { error: 'There is nothing at this path.', code: 'NOT_FOUND' };

type BoardRoute = { method: string | string[]; route: string | string[] };
const { appRoutes } = createRequire(import.meta.url)('@bull-board/api/dist/routes.js') as {
  appRoutes: { entryPoint: BoardRoute; api: BoardRoute[] };
}; // from the library

/** All paths and methods of the library, for the existing queue and job. */
const known = [appRoutes.entryPoint, ...appRoutes.api].flatMap(({ method, route }) =>
  [route].flat().flatMap((path) =>
    [method].flat().map((name) => ({
      method: name.toUpperCase(),
      path: `/queues${path}`
        .replace(':queueName', 'small-chat.interactive')
        .replace(':jobId', jobId)
        .replace(':queueStatus', 'wait')
        .replace(':schedulerId', 'none'),
    })),
  ),
);
const reading = known.filter(({ method }) => method === 'GET');
const changing = known.filter(({ method }) => method !== 'GET');

test('shows both lanes of every model with their jobs, and all of a job except the content of its client', async (t) => {
  const { ask } = await start(t);
  const page = await ask('/queues');
  t.is(page.status, 200);
  t.regex(page.text, /<base href="\/queues\/"/);
  t.regex(String(page.headers['content-security-policy']), /default-src 'self'.*frame-ancestors 'none'/);
  const script = /src="(static\/js\/main[^"]+)"/.exec(page.text)?.[1];
  t.is((await ask(`/queues/${script}`)).status, 200);

  const listed = await ask('/queues/api/queues?activeQueue=small-chat.interactive&status=prioritized');
  const { queues } = JSON.parse(listed.text) as {
    queues: { name: string; readOnlyMode: boolean; counts: { prioritized: number }; jobs: { data: unknown }[] }[];
  }; // the response of the library
  t.deepEqual(
    queues.map(({ name, readOnlyMode, counts }) => [name, readOnlyMode, counts.prioritized]),
    [
      ['small-chat.interactive', true, 1],
      ['small-chat.batch', true, 0],
      ['large-chat.interactive', true, 0],
      ['large-chat.batch', true, 0],
    ],
  );
  t.deepEqual(queues[0]?.jobs[0]?.data, { requestId: jobId, account: 'user:alice', model: 'small-chat' });

  t.true(reading.length > 12);
  for (const { path } of [
    ...reading,
    { path: '/queues/api/queues?activeQueue=small-chat.interactive&status=latest' },
  ]) {
    const answer = await ask(path);
    t.true([200, 404].includes(answer.status ?? 0), `${path}: ${answer.status} ${answer.text}`);
    t.false(answer.text.includes(secret), path);
  }
  t.true((await ask(`/queues/api/queues/small-chat.interactive/${jobId}`)).text.includes('small-chat'));
});

test('a page of many jobs is limited, because each job is read completely', async (t) => {
  const { ask, queues } = await start(t);
  for (let index = 0; index < 30; index++)
    await queues[0].add(jobName, data, { jobId: `req_more_${index}`, priority: 7 });
  const path = '/queues/api/queues?activeQueue=small-chat.interactive&status=prioritized&jobsPerPage=100000';
  const { queues: listed } = JSON.parse((await ask(path)).text) as { queues: { jobs: unknown[] }[] }; // as above
  t.is(listed[0]?.jobs.length, 20);
});

test('unless it is writable nothing can be changed, by any request of the library or any other method', async (t) => {
  const { ask, contents } = await start(t);
  const before = await contents();
  t.true(changing.length > 15);
  const bodies = [
    '{}',
    '{"force":true,"concurrency":1,"priority":1,"max":1,"duration":1,"jobData":{},"name":"x","data":{}}',
  ];
  for (const { method, path } of changing) {
    for (const body of bodies) {
      const answer = await ask(path, { method, headers: json, body });
      t.is(answer.status, 405, `${method} ${path}`);
      t.is(answer.headers.allow, 'GET, HEAD');
      t.like(JSON.parse(answer.text), { code: 'METHOD_NOT_ALLOWED' });
    }
  }
  for (const { path } of known) {
    for (const method of ['POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']) t.is((await ask(path, { method })).status, 405);
    await ask(path, { headers: { 'x-http-method-override': 'PUT' } });
  }
  t.deepEqual(await contents(), before);
});

test('if it is writable a queue can be paused and emptied, but no job can be added or edited', async (t) => {
  const { ask, queues, contents } = await start(t, { writable: true });
  const [queue] = queues;
  const put = (path: string) => ask(`/queues/api/queues/${path}`, { method: 'PUT', headers: json, body: '{}' });
  t.is((await put('small-chat.interactive/pause')).status, 200);
  t.true(await queue.isPaused());
  t.is((await put('small-chat.interactive/resume')).status, 200);
  t.false(await queue.isPaused());

  const before = await contents();
  for (const [method, path, body] of [
    ['POST', 'small-chat.interactive/add', { name: 'x', data: { payload: 'x' } }],
    ['PATCH', `small-chat.interactive/${jobId}/update-data`, { jobData: {} }],
  ] as const) {
    const answer = await ask(`/queues/api/queues/${path}`, { method, headers: json, body: JSON.stringify(body) });
    t.is(answer.status, 403, path);
    t.like(JSON.parse(answer.text), { code: 'FORBIDDEN' });
  }
  t.deepEqual(await contents(), before);
  t.is((await put('small-chat.interactive/empty')).status, 200);
  t.is(await queue.count(), 0);
});

test('errors of requests that change something have our format', async (t) => {
  const { ask } = await start(t, { writable: true });
  const api = '/queues/api/queues';
  for (const [method, path, body, status, code] of [
    ['PUT', `${api}/no-such-queue/pause`, '{}', 404, 'NOT_FOUND'],
    ['PUT', `${api}/small-chat.interactive/no-such-job/clean`, '{}', 404, 'NOT_FOUND'],
    ['PUT', `${api}/small-chat.interactive/concurrency`, '{"concurrency":"x"}', 400, 'VALIDATION_ERROR'],
    ['PUT', `${api}/small-chat.interactive/pause`, '{', 400, 'VALIDATION_ERROR'],
    ['PUT', `${api}/small-chat.interactive/pause`, `"${'x'.repeat(2_000_000)}"`, 400, 'VALIDATION_ERROR'],
    ['DELETE', `${api}/small-chat.interactive/pause`, '', 405, 'METHOD_NOT_ALLOWED'],
  ] as const) {
    const answer = await ask(path, { method, headers: json, body });
    t.is(answer.status, status, `${method} ${path}`);
    t.deepEqual(Object.keys(JSON.parse(answer.text)).sort(), ['code', 'error']);
    t.is(JSON.parse(answer.text).code, code);
    if (status === 405) t.truthy(answer.headers.allow);
  }
});

test('a page of another origin cannot change anything, with any headers of its browser', async (t) => {
  const { ask, port, queues } = await start(t, { writable: true });
  const pause = (headers: Record<string, string>, method = 'PUT') =>
    ask('/queues/api/queues/small-chat.interactive/pause', { method, headers: { ...json, ...headers }, body: '{}' });
  for (const headers of [
    { 'sec-fetch-site': 'cross-site' },
    { 'sec-fetch-site': 'same-site' },
    { 'sec-fetch-site': 'cross-site', origin: `http://127.0.0.1:${port}` },
    { origin: 'https://hostile.example' },
    { origin: 'http://127.0.0.1:1' },
    { origin: 'null' },
  ]) {
    const answer = await pause(headers);
    t.is(answer.status, 403, JSON.stringify(headers));
    t.like(JSON.parse(answer.text), { code: 'FORBIDDEN' });
  }
  const form = { 'content-type': 'text/plain', 'sec-fetch-site': 'cross-site' };
  t.is((await ask('/queues/api/queues/small-chat.interactive/add', { method: 'POST', headers: form })).status, 403);
  t.false(await queues[0].isPaused());

  for (const headers of [{ 'sec-fetch-site': 'same-origin' }, { origin: `http://127.0.0.1:${port}` }, {}]) {
    t.is((await pause(headers as Record<string, string>)).status, 200, JSON.stringify(headers));
  }
});

test('no page reaches it under another host name (DNS rebinding)', async (t) => {
  const { ask, port } = await start(t);
  for (const host of ['hostile.example', `hostile.example:${port}`, 'ingress:8081']) {
    const answer = await ask('/queues/api/queues', { headers: { host } });
    t.is(answer.status, 403, host);
    t.like(JSON.parse(answer.text), { code: 'FORBIDDEN' });
  }
});

test('HEAD is answered like GET without a body, and unknown paths are 404', async (t) => {
  const { ask } = await start(t);
  for (const path of ['/queues', '/queues/', '/queues/api/queues', '/queues/api/redis/stats']) {
    const answer = await ask(path, { method: 'HEAD' });
    t.deepEqual([answer.status, answer.text], [200, ''], path);
  }
  for (const path of [
    ...['/queues/none', '/queues/api', '/queues/api/none', '/queues/static/none.js'],
    ...['/queues/%zz', '/queuesx', '/queues/api/queues/none/none'],
  ]) {
    const answer = await ask(path);
    t.is(answer.status, 404, path);
    t.deepEqual(JSON.parse(answer.text), noSuchPage, path);
    t.is((await ask(path, { method: 'HEAD' })).status, 404, path);
  }
  for (const path of ['/queues/static/../../package.json', '/queues/static/%2e%2e/%2e%2e/package.json']) {
    const answer = await ask(path);
    t.is(answer.status, 403, path);
    t.like(JSON.parse(answer.text), { code: 'FORBIDDEN' }, path);
  }
});

test('until there are queues it is 503, and the other paths work', async (t) => {
  const { ask } = await start(t, { show: false });
  const answer = await ask('/queues');
  t.is(answer.status, 503);
  t.truthy(answer.headers['retry-after']);
  t.like(JSON.parse(answer.text), { code: 'SERVICE_UNAVAILABLE' });
  t.is((await ask('/healthz')).status, 200);
});

for (const fault of ['stopped', 'frozen'] as const) {
  test(`while Redis is ${fault} all requests get 503, and succeed again with Redis`, async (t) => {
    t.timeout(120_000);
    const { ask, server } = await start(t);
    if (fault === 'stopped') await server.stop();
    else await server.kill('SIGSTOP');
    const needsRedis = reading.filter(({ path }) => path.includes('/api/'));
    const answers = await Promise.all(needsRedis.map(async ({ path }) => ({ path, ...(await ask(path)) })));
    t.true(answers.filter(({ status }) => status === 503).length >= 6);
    for (const { path, status, text } of answers) {
      t.true([200, 404, 503].includes(status ?? 0), `${path}: ${status} ${text}`);
      if (status === 503) t.deepEqual(Object.keys(JSON.parse(text)).sort(), ['code', 'error']);
      t.false(/127\.0\.0\.1|ECONN|ioredis/.test(text), path);
    }
    t.is((await ask('/queues')).status, 200, 'the page needs no Redis');
    if (fault === 'stopped') await server.restart();
    else await server.kill('SIGCONT');
    while ((await ask('/queues/api/queues')).status !== 200) t.pass();
  });
}
