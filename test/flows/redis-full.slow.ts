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

test('no process is ready while Redis is out of memory, and each is again when it has memory', async (t) => {
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
  }
  t.is((await infer()).status, 503);
  await limitMemory('0');
  for (const url of processes) await until(200, () => fetch(`${url}/readyz`));
  t.is((await until(200, infer)).status, 200);
});
