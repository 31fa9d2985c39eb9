import test from 'ava';
import { startStack } from '../stack/stack.ts';
import { nodesOf, openRedis } from '../support/open-redis.ts';

/** Asks until the answer has this status. */
async function until(status: number, ask: () => Promise<Response>): Promise<Response> {
  for (;;) {
    const response = await ask();
    if (response.status === status) return response;
    await response.text();
  }
}

/** Whether a scrape of this process says that this check passes: 1 or 0. */
async function checkOf(url: string, name: string): Promise<number> {
  const text = await (await fetch(`${url}/metrics`)).text();
  return Number(text.match(new RegExp(`^svc_readiness_checks\\{check="${name}"\\} (\\S+)$`, 'm'))?.[1]);
}

test('no process is ready while Redis is out of memory, its metrics say so, and each is again when it has memory', async (t) => {
  t.timeout(60_000);
  await using stack = await startStack();
  const redis = openRedis(stack.redisUrl);
  t.teardown(() => redis.disconnect());
  const nodes = await nodesOf(redis);
  const limitMemory = (bytes: string) => Promise.all(nodes.map((node) => node.config('SET', 'maxmemory', bytes)));
  const key = await stack.mintKey('alice');
  const infer = () =>
    fetch(`${stack.ingresses[0]?.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'small-chat', messages: [{ role: 'user', content: 'Hello' }] }),
    });
  t.is((await infer()).status, 200);

  const processes = [...stack.ingresses, ...stack.workers].map(({ operationsUrl }) => operationsUrl);
  await limitMemory('1');
  for (const url of processes) {
    const { dependencies } = (await (await until(503, () => fetch(`${url}/readyz`))).json()) as {
      dependencies: Record<string, { state: string }>; // a response of the process itself
    };
    t.like(dependencies, { redis: { state: 'degraded' }, store: { state: 'ok' } }, url);
    t.deepEqual([await checkOf(url, 'redis'), await checkOf(url, 'replyRedis')], [0, 1], url);
  }
  t.is((await infer()).status, 503);
  await limitMemory('0');
  for (const url of processes) {
    await until(200, () => fetch(`${url}/readyz`));
    t.is(await checkOf(url, 'redis'), 1, url);
  }
  t.is((await until(200, infer)).status, 200);
});
