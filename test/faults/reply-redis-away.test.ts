import { setTimeout as sleep } from 'node:timers/promises';
import test from 'ava';
import { startStack } from '../stack/stack.ts';
import { chat } from '../support/chat.ts';
import { faultTest } from '../support/faults/fault-test.ts';
import { createKeyClient } from '../support/key-client.ts';
import { startPrivateRedis } from '../support/private-redis.ts';

faultTest(
  test,
  {
    id: '24h',
    done: 'the Redis of the replies (REPLY_REDIS_URL) is killed',
    promised:
      '/readyz 503; requests get an immediate 503, not charged, and no backend is called; served again when it is back',
  },
  async (t, see) => {
    await using replies = await startPrivateRedis();
    await using stack = await startStack({ env: { REPLY_REDIS_URL: replies.server.url } });
    const [ingress] = stack.ingresses;
    const url = ingress?.url ?? '';
    const keys = createKeyClient(stack);
    const key = await keys.newKey('alice');
    const ask = () => chat({ url, key, question: 'Hello' });
    const ready = async () => (await fetch(`${ingress?.operationsUrl}/readyz`)).status;
    t.is((await ask()).status, 200);
    t.is(await ready(), 200);
    const quota = async () => (await keys.send('GET', '/billing/quota', { bearer: key })).body;
    const { used } = await quota();
    const calls = () => stack.modelServers.flatMap((server) => server.calls()).length;
    const before = calls();

    await replies.server.kill('SIGKILL');
    while ((await ready()) !== 503) await sleep(20);
    const startedAt = performance.now();
    const refused = await ask();
    const tookMs = Math.round(performance.now() - startedAt);
    t.is(refused.status, 503);
    t.truthy(refused.headers.get('retry-after'));
    t.is(calls(), before, 'no backend is called');
    t.like(await quota(), { used, reserved: 0 });

    await replies.server.restart();
    while ((await ready()) !== 200) await sleep(20);
    let answered = await ask();
    while (answered.status === 503) answered = await ask();
    t.is(answered.status, 200);
    see(`a request: ${refused.status} after ${tookMs} ms, ${calls() - before} calls of backends until it was back`);
  },
);
