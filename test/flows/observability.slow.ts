import { readdirSync, readFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import test from 'ava';
import { oneBackend } from '../stack/plan.ts';
import { startStack } from '../stack/stack.ts';
import { awaitMetric } from '../support/await-metric.ts';
import { chat } from '../support/chat.ts';
import { examplesOf } from '../support/documentation/page-examples.ts';
import { allKeys, nodesOf, openRedis } from '../support/open-redis.ts';

const secretWord = 'xylophone-in-the-body';

test('metrics count requests, waits and attempts and contain no key, account or request id; logs and data contain no full key', async (t) => {
  await using stack = await startStack({ models: oneBackend, backends: { 'onprem-a': { requests_at_once: 7 } } });
  const [ingress] = stack.ingresses;
  const [worker] = stack.workers;
  if (ingress === undefined || worker === undefined) throw new Error('the stack has one of each');
  const key = await stack.mintKey('alice');
  await (await chat({ url: ingress.url, key, question: secretWord, stream: true })).text();
  const answered = await chat({ url: ingress.url, key, question: secretWord });
  const requestId = answered.headers.get('x-request-id') ?? '';
  await answered.text();
  t.is((await chat({ url: ingress.url, key: `${key}x`, question: secretWord })).status, 401);
  t.is((await fetch(`${ingress.url}/no/such/${key}?key=${key}`)).status, 404);

  // Jobs are counted at most every half second.
  for (const lane of ['interactive', 'batch'])
    await awaitMetric(
      ingress,
      new RegExp(`^svc_queue_depth\\{pool="default",model="small-chat",lane="${lane}"\\} 0$`, 'm'),
    );
  // The only worker has the entire limit, except while it renews its share: then no further call may begin.
  await awaitMetric(worker, /^svc_backend_share\{backend="onprem-a"\} 7$/m);
  const [atIngress, atWorker] = await Promise.all(
    [ingress, worker].map(async ({ operationsUrl }) => (await fetch(`${operationsUrl}/metrics`)).text()),
  );
  const [model, endpoint] = ['model="small-chat"', 'endpoint="/v1/chat/completions"'];
  t.regex(atIngress ?? '', new RegExp(`svc_inference_requests_total\\{${model},${endpoint},outcome="completed"\\} 2`));
  t.regex(
    atIngress ?? '',
    new RegExp(`svc_inference_requests_total\\{model="none",${endpoint},outcome="refused"\\} 1`),
  );
  t.regex(atIngress ?? '', new RegExp(`svc_first_token_seconds_count\\{${model},${endpoint}\\} 1`));
  t.regex(atIngress ?? '', new RegExp(`svc_time_per_output_token_seconds_count\\{${model},${endpoint}\\} 1`));
  for (const kind of ['prompt', 'completion'])
    t.regex(atWorker ?? '', new RegExp(`svc_tokens_total\\{${model},${endpoint},kind="${kind}"\\} [1-9]`));
  for (const text of [atIngress, atWorker])
    t.regex(
      text ?? '',
      new RegExp(`svc_build_info\\{version="\\d+\\.\\d+\\.\\d+",node="${process.versions.node}"\\} 1`),
    );
  const route = 'method="POST",route="/v1/chat/completions"';
  t.regex(atIngress ?? '', new RegExp(`svc_http_requests_total\\{${route},status="200"\\} 2`));
  t.regex(atIngress ?? '', new RegExp(`svc_http_requests_total\\{${route},status="401"\\} 1`));
  t.regex(atIngress ?? '', /svc_http_requests_total\{method="GET",route="none",status="404"\} 1/);
  t.regex(atIngress ?? '', /svc_http_request_duration_seconds_count\{route="\/v1\/chat\/completions"\} 3/);
  t.regex(atIngress ?? '', /^svc_queue_oldest_age_seconds\{pool="default",model="small-chat"\} 0$/m);
  t.regex(atIngress ?? '', /^svc_pool_workers\{pool="default"\} 1$/m);
  t.regex(atWorker ?? '', /^svc_worker_concurrency\{lane="interactive"\} 1024$/m);
  t.regex(atWorker ?? '', /^svc_backend_limit\{backend="onprem-a"\} 7$/m);
  t.regex(atWorker ?? '', /^svc_jobs_waiting_for_backend 0$/m);
  t.regex(atIngress ?? '', /^svc_queue_bytes_waiting 0$/m);
  t.regex(
    atWorker ?? '',
    /svc_queue_wait_seconds_count\{pool="default",lane="interactive",endpoint="\/v1\/chat\/completions"\} 2/,
  );
  t.regex(
    atWorker ?? '',
    /svc_backend_attempts_total\{backend="onprem-a",model="small-chat",endpoint="\/v1\/chat\/completions",outcome="answered"\} 2/,
  );
  t.regex(
    atIngress ?? '',
    /svc_admissions_total\{endpoint="\/v1\/chat\/completions",outcome="admitted",limit="none"\} 2/,
  );
  t.regex(
    atWorker ?? '',
    /svc_requests_settled_total\{endpoint="\/v1\/chat\/completions",outcome="completed",counted="reported"\} 2/,
  );
  t.regex(atWorker ?? '', /^svc_leases_held 0$/m);
  for (const name of ['usage_outbox_entries', 'usage_outbox_age_seconds', 'leases_expired_total'])
    t.regex(atWorker ?? '', new RegExp(`^svc_${name} \\d`, 'm'));
  for (const { name, labels } of queriedMetrics())
    for (const label of labels)
      t.regex(
        `${atIngress}${atWorker}`,
        new RegExp(`^${name}\\{[^}]*\\b${label}="`, 'm'),
        'as queried in the documentation',
      );
  for (const text of [atIngress, atWorker]) {
    for (const private_ of [key, key.slice(0, 10), 'alice', requestId]) t.false(text?.includes(private_));
  }

  await ingress.process.line((line) => line.requestId === requestId);
  const logs = JSON.stringify([ingress.process.logs, worker.process.logs]);
  t.false(logs.includes(key));
  t.false(logs.includes(secretWord), 'prompts are not logged');
  t.false((await redisDump(stack.redisUrl)).includes(key));
  t.false(await staysInRedis(stack.redisUrl, secretWord), 'nothing of an answered request stays in Redis');
  t.false(filesBelow(stack.directory).some((file) => readFileSync(file).includes(key)));
});

test('even at the most verbose level no log line contains a key, neither as text of a malformed request nor as bytes', async (t) => {
  await using stack = await startStack({ env: { LOG_LEVEL: 'trace' } });
  const [ingress] = stack.ingresses;
  const key = await stack.mintKey('alice');
  const socket = connect(Number(new URL(ingress?.url ?? '').port), '127.0.0.1');
  socket.write(`GET /v1/models HTTP/1.1\r\nAuthorization: Bearer ${key}\r\nthis is no header\r\n\r\n`);
  for await (const _bytes of socket);
  await ingress?.process.line(({ msg }) => msg === 'a request could not be parsed');
  const logs = JSON.stringify(ingress?.process.logs);
  t.false(logs.includes(key));
  t.false(logs.includes([...Buffer.from(key)].join(',')));
});

/** The metrics that queries in the documentation use, each with its labels. */
function queriedMetrics(): { name: string; labels: string[] }[] {
  const page = readFileSync(join('ingress', 'documentation', 'waiting.md'), 'utf8');
  const queries = examplesOf(page).flatMap(({ role, text }) => (role === 'query' ? [text] : []));
  return [...queries.join('\n').matchAll(/(svc_\w+)(?:\{([^}]*)\})?/g)].map(([, name = '', given = '']) => ({
    name,
    labels: [...given.matchAll(/(\w+)[=!]/g)].map(([, label = '']) => label),
  }));
}

/** Replies that an ingress has read are deleted a moment later. */
async function staysInRedis(url: string, text: string): Promise<boolean> {
  for (let waited = 0; waited < 30_000; waited += 20) {
    if (!(await redisDump(url)).includes(text)) return false;
    await sleep(20);
  }
  return true;
}

/** Every key of this Redis with its value, as text. */
async function redisDump(url: string): Promise<string> {
  const redis = openRedis(url);
  try {
    // Otherwise compression would hide values in the dump.
    for (const node of await nodesOf(redis)) await node.config('SET', 'rdbcompression', 'no');
    const dumped: string[] = [];
    for (const key of await allKeys(redis)) {
      const bytes = await redis.dumpBuffer(key);
      dumped.push(key, bytes?.toString('latin1') ?? '');
    }
    return dumped.join('\n');
  } finally {
    redis.disconnect();
  }
}

function filesBelow(directory: string): string[] {
  return readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));
}
