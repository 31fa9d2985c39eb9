import test from 'ava';
import { Redis } from 'ioredis';
import { canary } from '../stack/search-keys.ts';
import { type Stack, startStack } from '../stack/stack.ts';
import { chat } from '../support/chat.ts';
import { faultTest } from '../support/faults/fault-test.ts';
import { createKeyClient } from '../support/key-client.ts';

const megabyte = 1_048_576;

faultTest(
  test,
  {
    id: '24g',
    done: 'Redis refuses a prompt of 3 MB because it is out of memory, and a wrong password',
    promised: '503 for the request; no log of any process contains the prompt or the password, and no line is long',
  },
  async (t, see) => {
    await using stack = await startStack();
    const url = stack.ingresses[0]?.url ?? '';
    const keys = createKeyClient(stack);
    const key = await keys.newKey('alice');
    await keys.change('user:alice', { plan: 'pro' });
    const redis = new Redis(stack.redisUrl);
    t.teardown(() => redis.disconnect());
    const used = Number(/^used_memory:(\d+)/m.exec(await redis.info('memory'))?.[1]);
    await redis.config('SET', 'maxmemory', String(used + 2 * megabyte));
    const answer = await chat({ url, key, question: canary.repeat((3 * megabyte) / canary.length) });
    t.is(answer.status, 503);
    await redis.config('SET', 'maxmemory', '0');

    await redis.config('SET', 'requirepass', 'the right password');
    const wrong = new URL(stack.redisUrl);
    wrong.password = 'a-wrong-password';
    await refusedByRedis(stack, wrong.href);

    const lines = stack
      .started()
      .flatMap(({ logs, errors }) => [...logs.map((line) => JSON.stringify(line)), ...errors().split('\n')]);
    const about = lines.filter((line) => /OOM|WRONGPASS/.test(line));
    t.true(about.length >= 2, 'both refusals were logged');
    for (const line of lines) {
      t.false(line.includes(canary) || line.includes(wrong.password), line.slice(0, 500));
      t.true(line.length < 20_000, line.slice(0, 500));
    }
    const longest = Math.max(...lines.map(({ length }) => length));
    see(
      `the request: ${answer.status}; ${lines.length} lines, ${about.length} of them of a refusal, the longest of ${longest}`,
    );
    await redis.config('SET', 'requirepass', '');
  },
);

/** Starts an ingress and a worker whose password Redis refuses, which ends them. */
async function refusedByRedis(stack: Stack, redisUrl: string): Promise<void> {
  const starting = [stack.startIngress({ REDIS_URL: redisUrl }), stack.startWorker({ REDIS_URL: redisUrl })];
  await Promise.allSettled(starting);
}
