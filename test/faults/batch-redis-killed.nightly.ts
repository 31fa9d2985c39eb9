import { setTimeout as sleep } from 'node:timers/promises';
import test from 'ava';
import { startStack } from '../stack/stack.ts';
import { linesOf, openBatchClient, tokensIn } from '../support/batch-client.ts';
import { faultTest } from '../support/faults/fault-test.ts';

const lines = 300;
const awayMs = 3_000;

faultTest(
  test,
  {
    id: 'B3',
    done: 'Redis is killed (SIGKILL) during a batch, and restarted on its append-only file 3 s later',
    promised: 'the batch continues automatically; every line ends once and is charged once, as its results say',
  },
  async (t, see) => {
    t.timeout(180_000);
    await using stack = await startStack({ workers: 2, modelServers: { firstTokenMs: 200, tokensPerSecond: 400 } });
    const { redis } = stack;
    if (redis === undefined) throw new Error('this stack has its own Redis');
    const user = await openBatchClient(stack, 'alice');
    const { id } = await user.create(linesOf(lines));
    await user.until(id, ({ request_counts }) => (request_counts?.completed ?? 0) > 30);
    await redis.kill('SIGKILL');
    await sleep(awayMs);
    await redis.restart();
    const backAt = performance.now();

    const batch = await user.ended(id, 120_000);
    see(
      `${batch.status} ${Math.round(performance.now() - backAt)} ms after its return: ${JSON.stringify(batch.request_counts)}`,
    );
    t.like(batch, { status: 'completed', request_counts: { total: lines, completed: lines, failed: 0 } });
    const output = await user.output(batch);
    t.is(new Set(output.map(({ custom_id }) => custom_id)).size, lines);
    const quota = () => user.client.get<{ used: number; reserved: number }>('/../billing/quota');
    let quotaNow = await quota();
    while (quotaNow.reserved > 0) {
      await sleep(100);
      quotaNow = await quota();
    }
    t.is(quotaNow.used, tokensIn(output));
    const calls = stack.modelServers.flatMap((server) => server.calls()).length;
    see(`${calls} calls for ${lines} lines, ${quotaNow.used} tokens charged`);
  },
);
